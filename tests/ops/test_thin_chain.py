"""Whole steps of thin nets in two or three kernels, on the emulator: against the reference, checked, and in every way
that samples are divided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compared_steps import bits, clear_of_switches, compare_epoch
from segments_here import boundaries, kinds
from strategies import Case, case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, MSELoss, Net, ReLU
from warpladder.ops.engine.chain import whole
from warpladder.ops.tables import graph
from warpladder.ops.thin_chain import launches, many
from warpladder.ops.thin_chain.chain import ThinChain
from warpladder.ops.thin_chain.head import ThinHead
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.kernelwise.feeds import ResidentFeed
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)


def device(**how: Any) -> EmulatedDevice:
    """An emulator that seems to have many multiprocessors, for which samples are cut into partials."""
    found = EmulatedDevice(**how)
    found.limits = replace(found.limits, multiprocessors=8)
    return found


DEVICE = device()
CONFIG = TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
NETS = (
    nets.softmax((1, 8, 8)),
    nets.mlp10((1, 8, 8)),
    nets.softmax((1, 5, 7), classes=3),
    nets.mlp10((1, 5, 7), classes=16),
)

#: The graph rung's table without chains of small layers.
TABLE = replace(graph.TABLE, chains=())


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    return KernelTrainer(net, config, state, DEVICE, TABLE, "resident")


RUNG = Rung("thin", "", "", build)


@pytest.mark.parametrize("batch", [1, 7, None])
@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
@pytest.mark.by_day("softmax-8-7", "mlp10-5-", "mlp10-8-None", "softmax-5-1")
def test_steps(net: Net, batch: int | None) -> None:
    drawn = clear_of_switches(net, CONFIG.but(batch_size=batch), samples=9)
    assert compare_epoch(RUNG, drawn) > 0
    with build(net, CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer) == [ThinChain]
        assert [stage.phase for stage in trainer.stages(whole(trainer.batch))] == ["step"]  # the update is part of it


#: More inputs than a stage of the forward pass has, in rows that begin on a boundary of 16 bytes or not, and more than
#: a block of the gradient has.
LONGER = (nets.mlp10((1, 12, 12), classes=3), nets.softmax((1, 10, 10)), nets.softmax((1, 25, 25), classes=2))


@pytest.mark.parametrize("batch", [None, 17])
@pytest.mark.parametrize("net", NETS + LONGER, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
@pytest.mark.by_day("softmax-8", "mlp10-5", "mlp10-12")
def test_steps_of_many_samples(net: Net, batch: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partials whose gradients are added up; in the stored order where a batch has all samples, and else in the
    epoch's.
    """
    monkeypatch.setattr(launches, "FEW", 2)
    monkeypatch.setattr(many, "PARTIAL", 4)
    drawn = clear_of_switches(net, CONFIG.but(batch_size=batch), samples=30)
    assert compare_epoch(RUNG, drawn) == (1 if batch is None else 2)


@pytest.mark.parametrize(
    ("net", "batch", "as_bytes", "packed"),
    [
        (nets.mlp10((1, 5, 7)), None, True, True),
        (NETS[3], None, True, False),
        (NETS[1], 17, True, False),
        (NETS[1], None, False, False),
        (nets.mlp((1, 5, 7)), None, True, False),
    ],
    ids=["mlp10", "a wide second layer", "shuffled", "floats", "a head"],
)
def test_samples_are_packed_where_all_of_them_are_the_batch(
    net: Net, batch: int | None, as_bytes: bool, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "FEW", 2)
    drawn = case(net, CONFIG.but(batch_size=batch), seed=3, samples=30, as_bytes=as_bytes)
    with build(net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and trainer.chain is not None
        owner = trainer.chain.segments[-1]
        assert isinstance(owner, ThinChain | ThinHead)
        kernels = owner.many
        assert kernels is not None
        assert (kernels.packed is not None) == packed
        if kernels.packed is not None:
            words = -(-35 // 4)  # of a row, whose last bytes beyond the inputs are zeros
            pixels = np.zeros((many.SAMPLES, 4 * words), np.uint8)
            pixels[:30, :35] = drawn.dataset.train_x.reshape(30, 35)
            assert (pixels.view("<u4") == kernels.packed.samples.download().reshape(words, many.SAMPLES).T).all()


def test_a_run_that_needs_no_order_uploads_none() -> None:
    """And a second epoch begins where the first did, though nobody sets the count of steps back between them."""
    drawn = case(NETS[1], CONFIG.but(batch_size=None), seed=3, samples=20)
    with build(NETS[1], drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and isinstance(trainer.feed, ResidentFeed)
        first, second = (trainer.run(Order(0, epoch, 20), 0, 1).loss[0] for epoch in range(2))
        assert trainer.feed.order is None and trainer.running == 0
        assert np.isfinite(first) and second != first


@pytest.mark.parametrize("net", NETS[1:2] + LONGER, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
@pytest.mark.by_day("mlp10-12")
def test_steps_of_few_samples_with_many_inputs(net: Net) -> None:
    assert compare_epoch(RUNG, clear_of_switches(net, CONFIG.but(batch_size=17), samples=30)) == 2


def test_samples_stored_as_floats() -> None:
    drawn = case(NETS[1], CONFIG, seed=3, samples=20, as_bytes=False)
    assert compare_epoch(RUNG, drawn) > 0


@pytest.mark.parametrize("few", [1000, 2])
@pytest.mark.parametrize("batch", [None, 20])
def test_a_batch_in_slices(batch: int | None, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all samples, which are read as they stand, and of some; the update comes after the last slice."""
    monkeypatch.setattr(launches, "FEW", few)
    monkeypatch.setattr(many, "PARTIAL", 4)
    monkeypatch.setattr(kernelwise, "SLICE_BYTES", 5_000)
    drawn = clear_of_switches(NETS[1], CONFIG.but(batch_size=batch), samples=30)
    with build(NETS[1], drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer)
        parts = trainer._slices(trainer.batch)
        assert len(parts) > 1
        assert [stage.phase for stage in trainer.stages(parts[-1])] == ["step", "sum", "update"]
    assert compare_epoch(RUNG, drawn) == (1 if batch is None else 2)


@pytest.mark.parametrize("few", [1000, 2])
@pytest.mark.parametrize("net", [nets.mlp((1, 5, 7)), nets.cnn((1, 8, 8), classes=4)], ids=lambda net: net.name)
@pytest.mark.by_day("mlp-", "cnn-2")
def test_the_last_thin_layer_with_its_loss(net: Net, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "FEW", few)
    monkeypatch.setattr(many, "PARTIAL", 4)
    drawn = clear_of_switches(net, CONFIG, samples=9)
    assert compare_epoch(RUNG, drawn) > 0
    with build(net, CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer)[-1] is ThinHead and len(kinds(trainer)) > 1


@pytest.mark.parametrize(
    "net",
    [
        nets.mlp((1, 8, 8)),
        nets.cnn((1, 8, 8)),
        nets.softmax((1, 8, 8), classes=17),
        Net("no", (16,), (Linear(out_features=16),), MSELoss()),
        Net(
            "no",
            (9,),
            (Flatten(), Linear(out_features=4), ReLU(), Linear(out_features=4), ReLU(), Linear(out_features=4)),
            CrossEntropyLoss(),
        ),
        Net("no", (9,), (Linear(out_features=4), Linear(out_features=4)), CrossEntropyLoss()),
    ],
    ids=str,
)
def test_other_nets_are_left_to_the_layers(net: Net) -> None:
    assert ThinChain not in [kind for _, kind in boundaries(net, TABLE, DEVICE).cut]


def _trained(drawn: Case, device: EmulatedDevice) -> bytes:
    with KernelTrainer(drawn.net, drawn.config, drawn.state, device, TABLE, "resident") as trainer:
        trainer.load(drawn.dataset)
        log = trainer.run(drawn.order, 0, drawn.config.steps(drawn.order.n))
        return bits(trainer.state()) + log.loss.tobytes() + log.correct.tobytes()


@pytest.mark.parametrize(
    "net",
    [*(pytest.param(net, marks=pytest.mark.slow) for net in NETS[:2]), nets.mlp((1, 5, 5))],
    ids=lambda net: net.name,
)
@pytest.mark.slow
def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "PARTIAL", 4)
    for few in (1000, 2):
        monkeypatch.setattr(launches, "FEW", few)
        drawn = case(net, CONFIG.but(batch_size=11), seed=4, samples=15)
        found = {_trained(drawn, device(order=order, seed=5)) for order in ("forward", "reverse", "random")}
        assert len(found) == 1
        assert _trained(drawn, device(mode="check"))  # raises at the first report; its compiler fuses fewer additions
