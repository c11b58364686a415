"""A trainer's chain: segments that update their own parameters beside those that do not, and the chain that only
predicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from compared_steps import bits
from segments_here import kinds
from strategies import Case, case
from updating_chains import updating

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU
from warpladder.ops.engine.chain import whole
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables import gemm, naive, tiled
from warpladder.ops.tables import graph as graphed
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine
from warpladder.proof import verify
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.kernelwise.feeds import FEEDS
from warpladder.trainers.kernelwise.predict import PREDICTED
from warpladder.trainers.kernelwise.trainer import KernelTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CONFIG = TrainConfig(batch_size=4, learning_rate=0.05, momentum=0.9, weight_decay=1e-3)
NET = Net(
    "updates", (7,), (Linear(out_features=5), ReLU(), Linear(out_features=6), ReLU(), Linear(out_features=3)), CrossEntropyLoss()
)  # fmt: skip


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    device = EmulatedDevice()
    yield device
    device.close()


def trained(device: Device, drawn: Case, table: KernelTable, trainer: type[KernelTrainer] = KernelTrainer) -> bytes:
    """Two epochs."""
    with loaded(device, drawn, table, trainer) as found:
        out = b""
        for epoch in range(2):
            log = found.run(Order(1, epoch, drawn.order.n), 0, drawn.steps)
            out += log.loss.tobytes() + log.correct.tobytes()
        return out + bits(found.state())


def built(
    device: Device,
    drawn: Case,
    table: KernelTable,
    trainer: type[KernelTrainer] = KernelTrainer,
    feed: str = "resident",
) -> KernelTrainer:
    if trainer is GraphedTrainer:
        return GraphedTrainer(drawn.net, drawn.config, drawn.state, device, table)
    return KernelTrainer(drawn.net, drawn.config, drawn.state, device, table, feed)


def loaded(
    device: Device, drawn: Case, table: KernelTable, trainer: type[KernelTrainer] = KernelTrainer
) -> KernelTrainer:
    found = built(device, drawn, table, trainer)
    found.load(drawn.dataset)
    return found


#: Which layers update themselves, and in how many launches the others are updated: those side by side are in one.
RUNS = [((0,), 1), ((4,), 1), ((2,), 2), ((0, 2), 1), ((0, 4), 1), ((0, 2, 4), 0), ((), 1)]


@pytest.mark.parametrize(("numbers", "launches"), RUNS, ids=str)
def test_each_parameter_is_updated_once(device: Device, numbers: tuple[int, ...], launches: int) -> None:
    """By its segment or by a launch over what is left, to the same bits; a last partial batch is one of the steps."""
    drawn, table = case(NET, CONFIG, seed=1, samples=10), updating(*numbers)
    with loaded(device, drawn, table) as trainer:
        assert trainer.chain is not None
        assert trainer.chain.updated == {f"{number}.{name}" for number in numbers for name in ("weight", "bias")}
        for size in (4, 2):
            stages = [stage for stage in trainer.stages(whole(size)) if stage.phase == "update"]
            assert [len(stage.launches) for stage in stages] == ([launches] if launches else [])
    assert trained(device, drawn, table) == trained(device, drawn, naive.TABLE)
    assert trained(device, drawn, table, GraphedTrainer) == trained(device, drawn, naive.TABLE)


@pytest.mark.parametrize("numbers", [(0,), (2,), (0, 2, 4)], ids=str)
@pytest.mark.by_day("(2,)", "(0, 2, 4)")
def test_a_segment_that_updates_itself_is_proven(device: Device, numbers: tuple[int, ...]) -> None:
    verdict = verify(
        lambda net, config, state: KernelTrainer(net, config, state, device, updating(*numbers), "resident"), NET, CONFIG
    )  # fmt: skip
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


def test_a_batch_in_slices_is_updated_once_after_the_last(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelwise, "SLICE_BYTES", 600)
    drawn, table = case(NET, CONFIG.but(batch_size=6), seed=1, samples=15), updating(2)
    with loaded(device, drawn, table) as trainer:
        parts = [part for size in (6, 3) for part in trainer._slices(size)]
        assert trainer.capacity < 6 and not parts[0].is_whole and any(part.is_whole for part in parts)
        phases = [
            (part.is_last, part.is_whole, [len(s.launches) for s in trainer.stages(part) if s.phase == "update"])
            for part in parts
        ]
        assert all(found == ([] if not last else [2] if one else [1]) for last, one, found in phases)
    assert trained(device, drawn, table) == trained(device, drawn, naive.TABLE)


@pytest.mark.parametrize(
    "config", [CONFIG.but(schedule=Cosine()), TrainConfig(batch_size=4, optimizer=Adam(1e-2))], ids=["cosine", "adam"]
)
def test_other_optimizers_and_schedules_are_left_to_one_launch(device: Device, config: TrainConfig) -> None:
    drawn, table = case(NET, config, seed=1, samples=10), updating(0, 2)
    with loaded(device, drawn, table) as trainer:
        assert trainer.chain is not None and trainer.chain.updated == set()
        assert [len(stage.launches) for stage in trainer.stages(whole(4)) if stage.phase == "update"] == [1]
    assert trained(device, drawn, table) == trained(device, drawn, naive.TABLE)


# Prediction

IMAGES = Net(
    "images", (1, 6, 6), (Conv2d(out_channels=3, kernel_size=3), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=4)), CrossEntropyLoss()
)  # fmt: skip
PREDICTING = [
    (table, net)
    for table in ("naive", "tiled", "gemm", "graph")
    for net in (nets.softmax((1, 5, 5)), nets.mlp10((1, 5, 5)), IMAGES)
]
TABLES = {"naive": naive.TABLE, "tiled": tiled.TABLE, "gemm": gemm.TABLE, "graph": graphed.TABLE}


@pytest.mark.parametrize(("table", "net"), PREDICTING, ids=[f"{table}-{net.name}" for table, net in PREDICTING])
@pytest.mark.by_day("images", "softmax", "naive-mlp10", "graph-mlp10")
def test_it_predicts_the_same_bits_whenever_it_is_asked(device: Device, table: str, net: Net) -> None:
    """Before a training set is loaded, after it, in the middle of an epoch; and training goes on as if nobody had
    asked.
    """
    drawn = case(net, CONFIG, seed=1, samples=300)
    x, scale = drawn.dataset.train_x, drawn.dataset.scale
    kind = GraphedTrainer if table == "graph" else KernelTrainer

    def asked(trainer: KernelTrainer) -> bytes:
        """Of one sample, of a full part, and of one more."""
        before = trainer.memory(), dict(device.held)
        found = b"".join(trainer.predict(x[:rows], scale).tobytes() for rows in (1, 256, 257, 300))
        assert (trainer.memory(), dict(device.held)) == before
        return found

    with built(device, drawn, TABLES[table], kind) as undisturbed:
        undisturbed.load(drawn.dataset)
        undisturbed.run(drawn.order, 0, 5)
        wanted = undisturbed.state()
    with built(device, drawn, TABLES[table], kind) as trainer:
        first = asked(trainer)
        trainer.load(drawn.dataset)
        assert asked(trainer) == first
        trainer.run(drawn.order, 0, 3)
        middle, state = asked(trainer), trainer.state()
        assert middle != first
        trainer.run(drawn.order, 3, 5)
        assert bits(trainer.state()) == bits(wanted)
        trainer.set_state(state)
        assert asked(trainer) == middle
    with built(device, replace(drawn, state=state), TABLES[table], kind) as fresh:
        assert asked(fresh) == middle


@pytest.mark.parametrize("feed", FEEDS)
def test_prediction_does_not_depend_on_the_feed_or_the_batch(device: Device, feed: str) -> None:
    found = set()
    for batch in (1, 7, None):
        drawn = case(IMAGES, CONFIG.but(batch_size=batch), seed=1, samples=20, as_bytes=False)
        with built(device, drawn, naive.TABLE, feed=feed) as trainer:
            trainer.load(drawn.dataset)
            found.add(trainer.predict(drawn.dataset.train_x, drawn.dataset.scale).tobytes())
    assert len(found) == 1


def test_a_chain_that_predicts_holds_no_more_samples_than_it_is_given_at_a_time(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = case(IMAGES, CONFIG.but(batch_size=None), seed=1, samples=1000)
    taken: list[tuple[int, ...]] = []
    with loaded(device, drawn, naive.TABLE) as trainer:
        empty = device.empty

        def told(shape: tuple[int, ...], *more: object, **named: object) -> object:
            taken.append(shape)
            return empty(shape, *more, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(device, "empty", told)
        trainer.predict(drawn.dataset.train_x, drawn.dataset.scale)
        assert {shape[0] for shape in taken} == {PREDICTED}
        assert kinds(trainer)[-1] is naive.TABLE.segments[CrossEntropyLoss,]  # what trains is as it was
