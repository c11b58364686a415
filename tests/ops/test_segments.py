"""Segments of several nodes from outside of the package, proven on whole steps; and launches that overlap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import relu_pool
from clockwork import Clockwork
from strategies import case

import warpladder as wl
from warpladder import nets
from warpladder.device import Call
from warpladder.device.emulator import why_not
from warpladder.nets import Net
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables import gemm
from warpladder.ops.tables import graph as graphed
from warpladder.trainers.kernelwise.chain import Stage
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.kernelwise.where import open_device
from warpladder.trainers.streams import on_side_stream

NET = Net(
    "small", (1, 7, 9), (nets.Conv2d(out_channels=2, kernel_size=3), nets.ReLU(), nets.MaxPool2d(2), nets.Flatten(), nets.Linear(out_features=3)),
    nets.CrossEntropyLoss(),
)  # fmt: skip
DEEP = Net(
    "deep", (1, 6, 6),
    (nets.Conv2d(out_channels=4, kernel_size=3, padding=1), nets.ReLU(), nets.MaxPool2d(2),
     nets.Conv2d(out_channels=3, kernel_size=3, padding=1), nets.ReLU(), nets.Upsample2d(scale_factor=2),
     nets.Conv2d(out_channels=1, kernel_size=3, padding=1)),
    nets.MSELoss(),
)  # fmt: skip
CONFIG = wl.TrainConfig(batch_size=7, learning_rate=0.05)

emulated = pytest.mark.skipif(why_not() is not None, reason="the emulator needs g++")


@emulated
def test_a_fused_op_from_outside_is_proven() -> None:
    rung = relu_pool.RUNG.but(device="emulated")
    verdict = wl.verify(rung.build, NET, CONFIG)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


@emulated
@pytest.mark.parametrize("right, wrong", [("won = i;", "won = 3 - i;"), ("float best = 0.0f;", "float best = -1.0f;")])
def test_a_fused_op_that_is_wrong_is_caught(
    right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = relu_pool.SOURCE.read_text()
    assert right in text
    source = tmp_path / "relu_pool.cu"
    source.write_text(text.replace(right, wrong))
    monkeypatch.setattr(relu_pool, "SOURCE", source)
    assert not wl.verify(relu_pool.RUNG.but(device="emulated").build, NET, CONFIG).passed


@emulated
def test_a_fused_op_takes_the_place_of_two_segments_where_it_can() -> None:
    def kinds(net: Net) -> list[str]:
        drawn = case(net, CONFIG, seed=1, samples=9)
        trainer = KernelTrainer(net, CONFIG, drawn.state, open_device("emulated"), relu_pool.TABLE, "resident")
        with trainer:
            trainer.load(drawn.dataset)
            assert trainer.chain is not None
            return [type(segment).__name__ for segment in trainer.chain.segments]

    assert kinds(NET).count("ReLUPool") == 1 and "NaiveMaxPool2d" not in kinds(NET)
    overlapping = replace(
        NET, layers=tuple(nets.MaxPool2d(3, 1) if isinstance(layer, nets.MaxPool2d) else layer for layer in NET.layers)
    )
    assert "ReLUPool" not in kinds(overlapping)


def stages(net: Net, table: KernelTable, batch: int) -> list[Stage]:
    """A step as an H200 would run it, but for what uses the gradients."""
    config = wl.TrainConfig(batch_size=batch)
    drawn = case(net, config, seed=1, samples=2 * batch)
    trainer = KernelTrainer(net, config, drawn.state, Clockwork(lambda launch: 1e-5, hardware=None), table, "resident")
    trainer.load(drawn.dataset)
    return [stage for stage in trainer.stages(trainer.parts()[0]) if stage.phase not in ("sum", "update")]


@pytest.mark.parametrize("batch", [1, 64])
def test_what_runs_beside_other_launches_is_what_nobody_waits_for(batch: int) -> None:
    """The weights' gradients, but for the first layer's, the last launch of all; of the gradient that goes on, none."""
    found = stages(nets.autoencoder((3, 8, 8)), graphed.TABLE, batch)
    names = {(call.name.partition("<")[0], is_side) for stage, where in zip(found, on_side_stream(found), strict=True)
             for call, is_side in zip(stage.launches, where, strict=True) if stage.phase == "backward"}  # fmt: skip
    assert ("finish_weights", True) in names and ("sum_gradient", True) in names
    assert ("apply_relu_mask", True) not in names and ("spread_gradient", True) not in names
    head = stages(nets.mlp(), graphed.TABLE, batch)
    assert [where for stage, where in zip(head, on_side_stream(head), strict=True) if stage.phase == "backward"] == [
        [True],
        [False],
    ]


@pytest.mark.parametrize("table", [gemm.TABLE, replace(graphed.TABLE, fronts=())], ids=["gemm", "graph"])
@pytest.mark.parametrize("net", [nets.mlp((1, 4, 4)), DEEP], ids=lambda net: net.name)
@emulated
def test_launches_beside_others_may_come_last(net: Net, table: KernelTable) -> None:
    """As late as a graph may send them: behind everything else of the step. The bits are the same; a launch that
    somebody waits for changes them.
    """

    def trained(moved: bool, waited_for: bool = False) -> bytes:
        config = wl.TrainConfig(batch_size=5, learning_rate=0.1)
        drawn = case(net, config, seed=2, samples=15)
        with KernelTrainer(net, config, drawn.state, open_device("emulated"), table, "resident") as trainer:
            trainer.load(drawn.dataset)
            for part in trainer.parts():
                found = trainer.stages(part)
                own = [stage for stage in found if stage.phase not in ("sum", "update")]
                first: list[Call] = []
                late: list[Call] = []
                for stage, where in zip(own, on_side_stream(own), strict=True):
                    for call, is_side in zip(stage.launches, where, strict=True):
                        behind = stage.phase == "backward" and (not is_side if waited_for else is_side)
                        (late if moved and behind else first).append(call)
                rest = [call for stage in found if stage.phase in ("sum", "update") for call in stage.launches]
                trainer.programs[part] = [*first, *late, *rest]
            trainer.run(drawn.order, 0, config.steps(15))
            return trainer.state().bits()

    right = trained(moved=False)
    assert trained(moved=True) == right
    if net is DEEP:  # of the other net's way back nothing is waited for but by the update
        assert trained(moved=True, waited_for=True) != right
