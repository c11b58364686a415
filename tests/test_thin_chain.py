"""Whole steps of thin nets in two kernels, on the emulator: against the reference, checked, and in every way that samples are divided."""

from __future__ import annotations

import pytest

from strategies import Case, case
from test_steps import bits, clear_of_switches, compare_epoch
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.emulator import EmulatedDevice
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, MSELoss, Net, ReLU
from warpladder.ops.graphed import TABLE
from warpladder.ops.thin_chain import launches
from warpladder.ops.thin_chain.chain import ThinChain
from warpladder.ops.thin_chain.head import ThinHead
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.kernelwise.trainer import KernelTrainer

DEVICE = EmulatedDevice()
CONFIG = TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
NETS = (nets.softmax((1, 8, 8)), nets.mlp10((1, 8, 8)), nets.softmax((1, 5, 7), classes=3), nets.mlp10((1, 5, 7), classes=16))


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    return KernelTrainer(net, config, state, DEVICE, TABLE, "resident")


RUNG = Rung("thin", "", "", build)


@pytest.mark.parametrize("batch", [1, 7, None])
@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
def test_steps(net: Net, batch: int | None) -> None:
    drawn = clear_of_switches(net, CONFIG.but(batch_size=batch), samples=9)
    assert compare_epoch(RUNG, drawn) > 0
    with build(net, CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and isinstance(trainer.whole, ThinChain)


@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
def test_steps_of_many_samples(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four samples a warp, and slabs whose gradients are added up."""
    monkeypatch.setattr(launches, "FEW", 2)
    monkeypatch.setattr(launches, "SLAB", 4)
    drawn = clear_of_switches(net, CONFIG.but(batch_size=None), samples=30)
    assert compare_epoch(RUNG, drawn) == 1


def test_samples_stored_as_floats() -> None:
    drawn = case(NETS[1], CONFIG, seed=3, samples=20, as_bytes=False)
    assert compare_epoch(RUNG, drawn) > 0


def test_a_batch_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelwise, "SLICE_BYTES", 20_000)
    drawn = clear_of_switches(NETS[1], CONFIG.but(batch_size=None), samples=30)
    assert compare_epoch(RUNG, drawn) == 1


@pytest.mark.parametrize("few", [1000, 2])
@pytest.mark.parametrize("net", [nets.mlp((1, 5, 7)), nets.cnn((1, 8, 8), classes=4)], ids=lambda net: net.name)
def test_the_last_thin_layer_with_its_loss(net: Net, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "FEW", few)
    monkeypatch.setattr(launches, "SLAB", 4)
    drawn = clear_of_switches(net, CONFIG, samples=9)
    assert compare_epoch(RUNG, drawn) > 0
    with build(net, CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and isinstance(trainer.head, ThinHead) and trainer.whole is None


@pytest.mark.parametrize(
    "net",
    [
        nets.mlp((1, 8, 8)),
        nets.cnn((1, 8, 8)),
        nets.softmax((1, 8, 8), classes=17),
        Net("no", (16,), (Linear(16),), MSELoss()),
        Net("no", (9,), (Flatten(), Linear(4), ReLU(), Linear(4), ReLU(), Linear(4)), CrossEntropyLoss()),
        Net("no", (9,), (Linear(4), Linear(4)), CrossEntropyLoss()),
    ],
    ids=str,
)
def test_other_nets_are_left_to_the_layers(net: Net) -> None:
    assert not ThinChain.takes(net)


def _trained(drawn: Case, device: EmulatedDevice) -> bytes:
    with KernelTrainer(drawn.net, drawn.config, drawn.state, device, TABLE, "resident") as trainer:
        trainer.load(drawn.dataset)
        log = trainer.run(drawn.order, 0, drawn.config.steps(drawn.order.n))
        return bits(trainer.state()) + log.loss.tobytes() + log.correct.tobytes()


@pytest.mark.parametrize("net", [*NETS[:2], nets.mlp((1, 5, 5))], ids=lambda net: net.name)
def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "SLAB", 4)
    for few in (1000, 2):
        monkeypatch.setattr(launches, "FEW", few)
        drawn = case(net, CONFIG.but(batch_size=11), seed=4, samples=15)
        found = {_trained(drawn, EmulatedDevice(order=order, seed=5)) for order in ("forward", "reverse", "random")}
        assert len(found) == 1
        assert _trained(drawn, EmulatedDevice(mode="check"))  # raises at the first report; its compiler fuses fewer additions
