"""Runs whose rung tunes, on the emulator: timing changes no number, and a run goes on with the plan that it began with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from compared_steps import bits, clear_of_switches, compare_epoch
from plans import own_plans
from rich.console import Console
from rich.progress import Progress
from runs import AUTOENCODER, CONFIG, Hook, data, facts, hooked
from strategies import case

from warpladder.checkpoint import decode, encode, load
from warpladder.checkpoint.plan import NetPlan
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Call, Device
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import CheckpointError
from warpladder.nets import Conv2d, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.tables.graph import TABLE
from warpladder.rungs.base import Rung
from warpladder.rungs.options import GraphOptions
from warpladder.timing.profile import profile
from warpladder.train import train
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.tuning import candidates, plan_cache, tuner

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.usefixtures("machine_once")]


def last_wins(device: Device, works: list[list[Call]]) -> list[float]:
    """A clock by which the model has everything the wrong way round, and the table has the best ops."""
    for calls in works:
        for call in calls:
            call.send()
    tiles = all(call.product is not None for call in works[0])
    return [float(len(works) - at if tiles else 1 + at) for at in range(len(works))]


def rivals_win(device: Device, works: list[list[Call]]) -> list[float]:
    return [1 / seconds for seconds in last_wins(device, works)]


def forbidden(device: Device, works: list[list[Call]]) -> list[float]:
    raise AssertionError("it was timed again")


@pytest.fixture(autouse=True)
def _small_products_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own_plans(monkeypatch, tmp_path / "plans")
    monkeypatch.setattr(tuner, "WORTH", 1)
    monkeypatch.setattr(candidates, "PLANS", 2)
    monkeypatch.setattr(tuner, "in_turn", last_wins)
    yield


def tuned(hardware: str | None = "A") -> Rung:
    """The graph rung on an emulator that says what it is, with kernels of their own for all layers."""
    device = EmulatedDevice()
    device.hardware = hardware

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return GraphedTrainer(net, config, state, device, replace(TABLE, fronts=()))

    return Rung("graph", "", "", build, options=GraphOptions())


def plan_of(trainer: Trainer) -> NetPlan:
    assert trainer.tuned is not None
    return trainer.tuned


def forget() -> None:
    """As on a machine that has never timed anything."""
    plan_cache.found.clear()
    for file in plan_cache.PLANS.place().iterdir():
        file.unlink()


def test_timing_changes_nothing_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(AUTOENCODER, CONFIG, seed=1, samples=19)
    ends: list[bytes] = []
    stored: NetPlan | None = None
    for _ in range(2):
        with tuned().build(drawn.net, drawn.config, drawn.state) as trainer:
            assert isinstance(trainer, GraphedTrainer)
            trainer.tuned = stored
            trainer.load(drawn.dataset)
            assert bits(trainer.state()) == bits(drawn.state)
            assert not trainer.log.loss.download().any() and trainer.step.download().tolist() == [0]
            log = trainer.run(drawn.order, 0, 3)
            ends.append(bits(trainer.state()) + log.loss.tobytes())
            stored = plan_of(trainer)
            assert len(stored.products) == 3
        monkeypatch.setattr(tuner, "in_turn", forbidden)
    assert ends[0] == ends[1]


def test_steps_of_a_tuned_plan_agree_with_the_reference() -> None:
    config = TrainConfig(batch_size=2, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
    assert compare_epoch(tuned(), clear_of_switches(AUTOENCODER, config, samples=3)) == 2


#: The last layer's dx goes through an upsampling, and the third's gradient through a pool.
APART = Net(
    "apart",
    (1, 8, 8),
    (
        Conv2d(out_channels=3, kernel_size=3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Conv2d(out_channels=4, kernel_size=3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Upsample2d(scale_factor=2),
        Conv2d(out_channels=2, kernel_size=3, padding=1),
        ReLU(),
        Upsample2d(scale_factor=2),
        Conv2d(out_channels=1, kernel_size=3, padding=1),
    ),
    MSELoss(),
)


ENLARGED = Net(
    "first upsampled",
    (1, 4, 4),
    (
        Upsample2d(scale_factor=2),
        Conv2d(out_channels=3, kernel_size=3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Conv2d(out_channels=1, kernel_size=3, padding=1),
    ),
    MSELoss(),
)


@pytest.mark.parametrize("net", [APART, ENLARGED], ids=lambda net: net.name)
def test_steps_of_rival_ops_agree_with_the_reference(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "in_turn", rivals_win)
    monkeypatch.setattr(candidates, "PLANS", 1)
    config = TrainConfig(batch_size=2, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
    drawn = clear_of_switches(net, config, samples=3)
    with tuned().build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert {told.op for told in plan_of(trainer).ops} == {"Tiled"} and plan_of(trainer).products == ()
    assert compare_epoch(tuned(), drawn) == 2


def test_a_run_goes_on_with_the_plan_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same device it is neither timed again nor looked up."""

    class Crash(Exception):
        pass

    def at_ten(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if order.epoch * 7 + last > 10:
            raise Crash

    crash: Hook = at_ten
    shown = StringIO()
    whole = train(AUTOENCODER, data(), CONFIG, rung=tuned(), progress=Progress(console=Console(file=shown, width=300)))
    assert shown.getvalue().count("Timing the kernels of this net's layers on the emulator\nTimed in ") == 1
    path = tmp_path / "run.safetensors"
    with pytest.raises(Crash):
        train(AUTOENCODER, data(), CONFIG, rung=hooked(tuned(), before=crash), checkpoint=path, checkpoint_every=3)
    stored = load(path).tuned
    assert stored is not None and stored == whole.checkpoint.tuned
    forget()
    monkeypatch.setattr(tuner, "in_turn", forbidden)
    resumed = train(AUTOENCODER, data(), resume=path, rung=tuned())
    assert facts(resumed.checkpoint) == facts(whole.checkpoint) and resumed.checkpoint.tuned == stored
    monkeypatch.setattr(tuner, "in_turn", last_wins)
    with pytest.warns(UserWarning, match="timed on A, and this is B: they are timed again"):
        elsewhere = train(AUTOENCODER, data(), resume=path, rung=tuned("B"))
    assert elsewhere.checkpoint.tuned is not None and elsewhere.checkpoint.tuned.hardware == "B"
    with pytest.warns(UserWarning, match="timed on A, and this is the emulator: the model's are used here"):
        assert train(AUTOENCODER, data(), resume=path, rung=tuned(None)).checkpoint.tuned is None
    assert train(AUTOENCODER, data(), resume=path, rung="numpy").checkpoint.tuned is None


def test_a_checkpoint_keeps_the_plan_and_says_what_is_wrong_with_it() -> None:
    from checkpoints import apart, together

    end = train(AUTOENCODER, data(), CONFIG.but(epochs=1), rung=tuned()).checkpoint
    content = encode(end)
    assert decode(content).tuned == end.tuned is not None
    document, tensors = apart(content)
    document["tuned"]["products"][1]["parts"] = "2"
    with pytest.raises(
        CheckpointError, match=r"^'it' is damaged: tuned.products\[1\].parts wants a whole number, got '2'$"
    ):
        decode(together(document, tensors), "it")
    document["tuned"] = None
    with pytest.raises(CheckpointError, match=r"^'it' is damaged: tuned wants an object, got None$"):
        decode(together(document, tensors), "it")


def test_a_profile_tells_every_product_and_who_chose_its_tiles() -> None:
    drawn = case(AUTOENCODER, CONFIG, seed=1, samples=19)
    for rung, timed in ((tuned(), True), (tuned(None), False)):
        found = profile(rung, AUTOENCODER, drawn.dataset, CONFIG.but(batch_size=4))
        assert [(t.layers, t.product, t.samples, t.timed) for t in found.tiles] == [
            ((2,), name, 4, timed) for name in ("y", "dw", "dx")
        ]
