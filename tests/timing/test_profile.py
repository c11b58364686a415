"""Profiles: every operation is there, the floors are counted right, and shares add up."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from climbs import example
from made_up_profiles import LONG, made_up
from rich.console import Console
from rungs_here import HERE
from strategies import NARROW, case

from warpladder import nets
from warpladder.cli import main
from warpladder.cli.profile import launches, memory, operations, tiles
from warpladder.config import TrainConfig
from warpladder.device.limits import Limits, Resources
from warpladder.device.occupancy import occupancy
from warpladder.errors import RungError
from warpladder.ladder import find
from warpladder.nets import Flatten
from warpladder.optimizers import Adam, Optimizer
from warpladder.results.profiled import Profile
from warpladder.results.report.page import page
from warpladder.rungs.base import Rung
from warpladder.timing.profile import WHOLE, floor, profile
from warpladder.trainers.native.compiler.clocks import Clocks
from warpladder.trainers.native.trainer import NativeTrainer

pytestmark = pytest.mark.usefixtures("machine_once")

CONFIG = TrainConfig(batch_size=4, momentum=0.9)


@pytest.mark.parametrize(
    "rung", [rung for rung in HERE if rung.name not in ("native", "cupy")], ids=lambda rung: rung.name
)
@pytest.mark.parametrize(
    "net", [nets.cnn((1, 8, 8)), pytest.param(NARROW, marks=pytest.mark.slow)], ids=["cnn", "autoencoder"]
)
@pytest.mark.by_day("cnn-numpy", "cnn-tiled")
def test_every_operation_is_timed_forward_and_backward(rung: Rung, net: nets.Net) -> None:
    found = profile(rung, net, case(net, CONFIG, seed=1, samples=10).dataset, CONFIG)
    computing = [i for i, layer in enumerate(net.layers) if not isinstance(layer, Flatten)]
    told = {
        phase: sorted(
            int(name.split()[0]) for part in found.parts if part.phase == phase for name in part.name.split(", ")
        )
        for phase in ("forward", "backward")
    }
    assert told == {"forward": computing, "backward": [i for i in computing if i >= net.first_trained]}
    assert {part.phase for part in found.parts} - {"prepare"} == {"feed", "forward", "loss", "backward", "update"}
    assert all(part.seconds > 0 for part in found.parts)
    assert found.step_seconds > 0 and found.samples == 4 and found.reason == ""
    both = sum(part.floor.flops for part in found.parts if part.phase in ("forward", "backward"))
    assert both == found.flops == 4 * net.train_flops


def test_floors_of_a_linear_layer_are_what_they_are_by_hand():
    net = nets.mlp((1, 28, 28))
    first, second = range(1, 2), range(3, 4)
    assert floor.forward(net, first, 64) == floor.Floor(2 * 64 * 784 * 256, 4 * (64 * 784 + 64 * 256 + 784 * 256 + 256))
    # the first layer: dy and x in, dw and db out; the second also reads its weights and writes dx
    assert floor.backward(net, first, 64) == floor.Floor(
        2 * 64 * 784 * 256, 4 * (64 * 256 + 64 * 784 + 784 * 256 + 256)
    )
    assert floor.backward(net, second, 64) == floor.Floor(
        4 * 64 * 256 * 10, 4 * (64 * 10 + 2 * 64 * 256 + 2 * (2560 + 10))
    )
    assert floor.update(net, TrainConfig()).bytes == 12 * net.param_count
    assert floor.update(net, CONFIG).bytes == 20 * net.param_count


def test_a_floor_takes_the_longer_of_both():
    assert floor.Floor(100, 10).seconds(10.0, 10.0) == 10.0
    assert floor.Floor(10, 100).seconds(10.0, 5.0) == 20.0


def test_a_rung_that_is_one_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As native is where the system has no clock for its instructions."""
    net = nets.softmax((1, 4, 4))
    monkeypatch.setattr(Clocks, "read", lambda self: [])
    found = profile(find("native"), net, case(net, CONFIG, seed=1, samples=9).dataset, CONFIG)
    assert found.parts == () and found.reason == WHOLE and math.isfinite(found.step_seconds) and not found.inside
    assert found.memory["parameters"] > 0 and found.host_bytes > 0


DENSE = nets.Net(
    "dense",
    (1, 8, 8),
    (Flatten(), nets.Linear(out_features=96), nets.ReLU(), nets.Linear(out_features=10)),
    nets.CrossEntropyLoss(),
)


@pytest.mark.parametrize("net", [nets.cnn((1, 8, 8)), nets.mlp10((1, 4, 16)), DENSE, NARROW], ids=lambda net: net.name)
@pytest.mark.parametrize("batch", [4, None])
@pytest.mark.parametrize("optimizer", [CONFIG.optimizer, Adam()], ids=["SGD", "Adam"])
@pytest.mark.by_day("SGD-None-mlp10", "SGD-None-dense", "Adam-4-cnn")
def test_every_instruction_of_native_has_a_clock(
    net: nets.Net, batch: int | None, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpladder.timing.profile.PATIENCE", 0.01)
    config = TrainConfig(batch_size=batch, optimizer=optimizer)
    found = profile(find("native"), net, case(net, config, seed=1, samples=10).dataset, config)
    told = {
        phase: {part.name for part in found.parts if part.phase == phase}
        for phase in ("forward", "backward", "loss", "update")
    }
    for phase, first in (("forward", 0), ("backward", net.first_trained)):
        numbers = {int(word.split()[0]) for name in told[phase] for word in name.split(", ")}
        assert {i for i, layer in enumerate(net.layers) if i >= first and not isinstance(layer, Flatten)} <= numbers
    assert told["loss"] == {"loss"} and told["update"] <= {"update"}
    assert found.inside and found.reason == ""
    assert all(
        kernel.seconds > 0 and kernel.launches > 0 and kernel.shape is None
        for part in found.parts
        for kernel in part.kernels
    )
    assert all(part.seconds == pytest.approx(sum(kernel.seconds for kernel in part.kernels)) for part in found.parts)
    assert sum(part.floor.flops for part in found.parts if part.phase == "forward") == found.samples * sum(
        layer.flops(shape) for layer, shape in zip(net.layers, net.shapes, strict=False)
    )
    # whichever weights are stepped with their gradients, the others in the update: each is counted once
    stepped = sum(part.floor.flops for part in found.parts if part.phase in ("backward", "update"))
    assert stepped == floor.backward(net, range(len(net.layers)), found.samples).flops + floor.update(net, config).flops


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("net", [nets.cnn((1, 8, 8)), DENSE], ids=lambda net: net.name)
def test_a_clock_changes_no_bit_and_counts_no_more_than_there_was(net: nets.Net, threads: int) -> None:
    """Two threads train as without clocks; what each spent in instructions is less than what passed on the wall, and
    most calls are counted once a block.
    """
    config = TrainConfig(batch_size=4)
    drawn = case(net, config, seed=2, samples=20)
    ended = []
    for clocked in (False, True):
        with NativeTrainer(net, config, drawn.state, threads) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 1)
            began = perf_counter()
            if clocked:
                with trainer.clocked() as clocks:
                    trainer.run(drawn.order, 1, 5)
                    passed, spent = perf_counter() - began, clocks.read()
                assert 0 < sum(each.seconds for each in spent) < passed
                assert [each.operation for each in spent] == [row.operation for row in trainer.plan.rows]
                assert all(each.calls >= 4 for each in spent) and {each.seconds for each in clocks.read()} == {0.0}
            else:
                trainer.run(drawn.order, 1, 5)
            ended.append(trainer.state().bits())
    assert ended[0] == ended[1]


def test_instructions_are_shown_without_a_launchs_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    assert main(["profile", "mlp", "--data", "digits", "--rung", "native", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert (
        "Instructions of the program" in shown
        and "weight_gradient" in shown
        and "library" not in shown
        and "occupancy" not in shown
    )
    text = page(example(), profiles=[Profile.load(out)])
    assert "Clocked inside whole steps" in text and "times on each thread" in text and "weight_gradient" in text


def test_a_rung_that_cannot_train_here_is_refused():
    net = nets.cnn((1, 8, 8))
    with pytest.raises(RungError, match="sklearn"):
        profile(find("sklearn"), net, case(net, CONFIG, seed=1, samples=9).dataset, CONFIG)


@pytest.mark.parametrize(
    ("threads", "shared", "registers", "share"),
    [
        (256, 0, 32, 1.0),
        (1024, 0, 64, 0.5),  # 65,536 registers are one block of 1,024 threads with 64
        (256, 0, 128, 0.25),
        (128, 100 << 10, 32, 2 * 128 / 2048),  # two blocks of 101 KiB in 228
        (32, 0, 16, 0.5),  # 32 blocks at most
        (33, 0, 32, 2 * 32 / 64),  # two warps, one of them with a single thread; 32 blocks
    ],
)
def test_occupancy_by_each_of_its_limits(threads: int, shared: int, registers: int, share: float) -> None:
    assert occupancy((threads, 1, 1), shared, Resources(registers=registers), Limits("H200")) == share


def test_the_command_writes_what_it_shows(tmp_path, capsys):
    out = tmp_path / "p.json"
    assert main(["profile", "softmax", "--data", "digits", "--rung", "loops", "--out", str(out)]) == 0
    told = json.loads(out.read_text())
    assert told["schema"] == 1 and told["rung"] == "loops" and np.isfinite(told["step_seconds"])
    shown = capsys.readouterr().out
    assert "1 Linear" in shown and "of floor" in shown and "update" in shown


@pytest.mark.parametrize("width", [60, 70, 80, 100, 160])
def test_a_narrow_terminal_costs_no_figure(width: int) -> None:
    """At 80 columns the table of kernels once lost its numbers."""
    console = Console(width=width, color_system=None)
    found = made_up()
    with console.capture() as capture:
        for show in (operations, launches, tiles, memory):
            console.print(show(found, console.width))
    text = capture.get()
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    figures = (
        "98.7 us", "123.46", "98.77", "1,250.8", "1,000.7", "65535x128x64", "32x8x4", "255", "99,328", "1280", "38%", "128x128x16", "60,000",
        "123.457", "1,000.0", "1.2346",
    )  # fmt: skip
    assert [figure for figure in figures if figure not in text] == []
    name = re.escape(LONG.replace(" ", ""))
    assert width < 160 or re.search(name, text.replace(" ", ""))
