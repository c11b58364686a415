"""Small chains on the emulator: steps against the reference, plans, bits, and where other segments compute a net."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from compared_steps import bits, clear_of_switches, compare_epoch
from segments_here import kinds
from strategies import case

from warpladder.config import TrainConfig
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, Net, ReLU
from warpladder.ops.linear.gemm import GemmLinear
from warpladder.ops.linear.stem import ShortStem
from warpladder.ops.small_chain.chain import SmallChain
from warpladder.ops.small_chain.plan import Copy, planned
from warpladder.ops.tables.graph import TABLE
from warpladder.ops.thin_chain.head import ThinHead
from warpladder.optimizers import Adam
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)


def device(mode: str = "fast", order: str = "forward", shared: int = 227 << 10) -> EmulatedDevice:
    """One with as many multiprocessors as an H200, and as much shared memory."""
    found = EmulatedDevice(mode=mode, order=order, seed=3)
    found.limits = replace(found.limits, multiprocessors=132, shared_opt_in=shared)
    return found


def dense(*widths: int) -> tuple[Layer, ...]:
    return tuple(layer for width in widths for layer in (Linear(out_features=width), ReLU()))[:-1]


def net(inputs: int, *widths: int) -> Net:
    return Net(f"{inputs}-{widths}", (inputs,), dense(*widths), CrossEntropyLoss())


def rung(on: EmulatedDevice) -> Rung:
    return Rung("small", "", "", lambda *run: build(on, *run))


def build(on: EmulatedDevice, net: Net, config: TrainConfig, state: State, feed: str = "resident") -> Trainer:
    return KernelTrainer(net, config, state, on, TABLE, feed)


SGD_CONFIG = TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
ADAM_CONFIG = TrainConfig(batch_size=7, optimizer=Adam(learning_rate=1e-5))
DEVICE = device()
FLAT = Net("flat", (1, 3, 7), (Flatten(), *dense(20, 33, 16)), CrossEntropyLoss())
NETS = (net(5, 17, 2), net(54, 20, 7), FLAT, net(130, 131, 9, 10), net(8, 12, 12, 12, 12, 12, 3), net(9, 40, 29))


@pytest.mark.parametrize("of", NETS, ids=lambda net: net.name)
@pytest.mark.parametrize("config", [SGD_CONFIG, ADAM_CONFIG], ids=["sgd", "adam"])
def test_steps_of_whole_nets(of: Net, config: TrainConfig) -> None:
    drawn = clear_of_switches(of, config, samples=16)  # two batches and two samples
    assert compare_epoch(rung(DEVICE), drawn) > 0
    with build(DEVICE, of, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer) == [SmallChain]


def test_steps_after_other_layers() -> None:
    """A convolution before the chain gets its gradient, without the mask of the ReLU between them."""
    images = Net(
        "images", (1, 5, 6), (Conv2d(out_channels=3, kernel_size=2), ReLU(), Flatten(), *dense(19, 4)),
        CrossEntropyLoss(),
    )  # fmt: skip
    drawn = clear_of_switches(images, SGD_CONFIG, samples=9)
    assert compare_epoch(rung(DEVICE), drawn) > 0
    with build(DEVICE, images, SGD_CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer)[-1] is SmallChain


def test_weights_take_turns_where_shared_memory_is_small() -> None:
    on, of = device(shared=40 << 10), net(20, 60, 61, 60, 59, 5)
    plan = planned((20, 60, 61, 60, 59, 5), 7, on.limits, False)
    assert plan is not None and plan.shared <= on.limits.shared_opt_in
    assert len({copy.place for copies in plan.copies for copy in copies}) < 5
    drawn = clear_of_switches(of, SGD_CONFIG, samples=9)
    assert compare_epoch(rung(on), drawn) > 0


@pytest.mark.parametrize("widths", [(8, 8, 8), (20, 40, 41, 40, 39, 5), (3, *[60] * 9, 2), (100, 7, 90, 6)])
@pytest.mark.parametrize("shared", [24 << 10, 48 << 10, 227 << 10])
@pytest.mark.parametrize("has_dx", [False, True])
def test_each_pass_finds_its_weights(widths: tuple[int, ...], shared: int, has_dx: bool) -> None:
    """Copies in a plan's order: each pass's layer is at its place, and no copy overwrites what a pass still reads."""
    plan = planned(widths, 64, device(shared=shared).limits, has_dx)
    if plan is None:
        assert shared < 48 << 10
        return
    last = len(widths) - 1
    assert plan.passes == (*range(1, last + 1), *range(last, 0 if has_dx else 1, -1))
    held: dict[int, int] = {}
    for layer, place, copies in zip(plan.passes, plan.weights, plan.copies, strict=True):
        held |= {copy.place: copy.layer for copy in copies}
        assert held[place] == layer
    ends = sorted((each, 4 * -(-widths[held[each]] // 4)) for each in held)
    assert all(first[0] < second[0] for first, second in pairwise(ends))
    assert Copy(1, plan.weights[0]) in plan.copies[0]


@pytest.mark.parametrize("samples", [1, 2, 4, 8])
def test_each_number_of_samples_of_a_block(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpladder.ops.small_chain.plan.SAMPLES", (samples,))
    planned.cache_clear()
    drawn = clear_of_switches(net(11, 9, 6, 4), SGD_CONFIG.but(batch_size=19), samples=24)
    assert compare_epoch(rung(DEVICE), drawn) > 0
    planned.cache_clear()


@pytest.mark.slow
def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent() -> None:
    drawn, found = case(net(21, 34, 18, 5), SGD_CONFIG, seed=2, samples=18), set()
    for mode, order in (("fast", "forward"), ("fast", "reverse"), ("fast", "random"), ("check", "forward")):
        with build(device(mode, order), drawn.net, SGD_CONFIG, drawn.state) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 3)  # in check mode it raises at the first report
            if mode == "fast":
                found.add(bits(trainer.state()))
    assert len(found) == 1


def test_where_there_is_no_chain() -> None:
    """Many samples, many classes, weights beyond shared memory; samples that are not on the device need no order."""
    for of, config, feed, wanted in (
        (net(54, 20, 7), SGD_CONFIG, "sync", [SmallChain]),
        (net(54, 20, 33), SGD_CONFIG, "sync", [GemmLinear, GemmLinear]),
        (net(784, 256, 10), SGD_CONFIG, "resident", [ShortStem, ThinHead]),
        (net(784, 128, 100, 10), SGD_CONFIG, "resident", [ShortStem, SmallChain]),
    ):
        drawn = case(of, config, seed=1, samples=20)
        with build(DEVICE, of, config, drawn.state, feed) as trainer:
            trainer.load(drawn.dataset)
            assert isinstance(trainer, KernelTrainer) and kinds(trainer)[: len(wanted)] == wanted
    drawn = case(net(54, 20, 7), SGD_CONFIG.but(batch_size=600), seed=1, samples=601)
    with build(DEVICE, drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and SmallChain not in kinds(trainer)


def test_feeds_end_in_the_same_bits() -> None:
    drawn, found = case(NETS[1], SGD_CONFIG, seed=2, samples=18), set()
    for feed in ("resident", "sync"):
        with build(DEVICE, drawn.net, SGD_CONFIG, drawn.state, feed) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 3)
            found.add(bits(trainer.state()))
    assert len(found) == 1
