"""Small chains on the emulator: steps against the reference, plans, bits, and where other segments compute a net."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from compared_steps import bits, check_updates, clear_of_switches, compare_epoch
from drawn_chains import data as drawn_data
from drawn_chains import drawn
from emulated_h200 import device, idle
from segments_here import kinds
from strategies import case

from warpladder.config import TrainConfig
from warpladder.data import Dataset
from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.source import KernelSource
from warpladder.nets import (
    GELU,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    HuberLoss,
    L1Loss,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MSELoss,
    Net,
    ReLU,
    Sigmoid,
    SiLU,
    Tanh,
    params,
)
from warpladder.ops.linear.gemm import GemmLinear
from warpladder.ops.linear.stem import ShortStem
from warpladder.ops.small_chain.chain import SmallChain
from warpladder.ops.small_chain.plan import Copy, Piece, fastest
from warpladder.ops.small_chain.source import forward_source, gradient_source
from warpladder.ops.tables.graph import TABLE
from warpladder.ops.thin_chain.head import ThinHead
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)


def dense(*widths: int) -> tuple[Layer, ...]:
    return tuple(layer for width in widths for layer in (Linear(out_features=width), ReLU()))[:-1]


def net(inputs: int, *widths: int) -> Net:
    return Net(f"{inputs}-{widths}", (inputs,), dense(*widths), CrossEntropyLoss())


def rung(on: EmulatedDevice) -> Rung:
    return Rung("small", "", "", lambda *run: build(on, *run))


def build(on: Device, net: Net, config: TrainConfig, state: State, feed: str = "resident") -> Trainer:
    return KernelTrainer(net, config, state, on, TABLE, feed)


SGD_CONFIG = TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
ADAM_CONFIG = TrainConfig(batch_size=7, optimizer=Adam(learning_rate=1e-5))
DEVICE = device()
NARROW = device(multiprocessors=2)  # whose blocks have several samples
FLAT = Net("flat", (1, 3, 7), (Flatten(), *dense(20, 33, 16)), CrossEntropyLoss())
NETS = (net(5, 17, 2), net(54, 20, 7), FLAT, net(130, 131, 9, 10), net(8, 12, 12, 12, 12, 12, 3))


@pytest.mark.parametrize(
    ("of", "config"), list(zip(NETS, [SGD_CONFIG, ADAM_CONFIG] * 3, strict=False)), ids=[of.name for of in NETS]
)
@pytest.mark.by_day("54-(20, 7)", "130-(131", "flat")
def test_steps_of_whole_nets(of: Net, config: TrainConfig) -> None:
    drawn = clear_of_switches(of, config, samples=16)  # two batches and two samples
    assert compare_epoch(rung(DEVICE), drawn) > 0
    with build(DEVICE, of, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer) == [SmallChain]
        assert all(len(trainer.program(part)) == 2 for part in trainer.parts())


def linear(width: int, *functions: Layer, bias: bool = True) -> tuple[Layer, ...]:
    return (Linear(out_features=width, bias=bias), *functions)


#: Every loss, function and form of data that one kernel has lines for; inputs, layers, loss, weights of samples.
KINDS: tuple[tuple[int, tuple[Layer, ...], Loss, bool], ...] = (
    (5, (*linear(12, GELU()), *linear(1)), MSELoss(), False),
    (33, (*linear(7, Tanh(), LeakyReLU(-0.3)), *linear(9, ReLU(), bias=False), *linear(3, Sigmoid())), L1Loss(), True),
    (6, (Dropout(0.2), *linear(20, ReLU(), Dropout(0.5)), *linear(2, Dropout(0.1), bias=False)), HuberLoss(0.4), False),
    (11, (*linear(8, SiLU(), Dropout(0.3)), *linear(2)), BCEWithLogitsLoss((3.0, 0.5)), True),
    (8, (*linear(9, Sigmoid()), *linear(40)), CrossEntropyLoss((1.0, 2.0) * 20, 0.2), False),
    (10, (*linear(4, GELU(approximate="tanh")), *linear(70)), CrossEntropyLoss(), True),
)


@pytest.mark.parametrize(("inputs", "layers", "loss", "is_weighted"), KINDS, ids=[str(kind[2])[:30] for kind in KINDS])
@pytest.mark.by_day("L1Loss", "HuberLoss", "BCEWithLogitsLoss", "CrossEntropyLoss(weight")
def test_losses_and_functions(inputs: int, layers: tuple[Layer, ...], loss: Loss, is_weighted: bool) -> None:
    of, random = Net("kind", (inputs,), layers, loss), np.random.default_rng(4)
    samples = drawn_data(inputs, of.out_shape[0], loss, 7, random)
    samples = samples.but(train_weight=random.uniform(0, 2, 17).astype(np.float32) if is_weighted else None)
    check_updates(partial(build, NARROW), of, TrainConfig(batch_size=7, learning_rate=0.5), samples)


def test_a_net_that_learns_its_input() -> None:
    """Bytes, of which samples and targets are both made; Dropout changes the samples alone."""
    layers, random = (Dropout(0.2), *linear(5, Tanh()), *linear(9)), np.random.default_rng(1)
    x = random.integers(0, 256, (17, 9), np.uint8)
    of = Net("itself", (9,), layers, MSELoss())
    for feed in ("resident", "sync"):
        fed = partial(build, NARROW, feed=feed)
        config = TrainConfig(batch_size=7, learning_rate=0.5)
        check_updates(fed, of, config, Dataset("x", x, None, x, None, 1 / 255))


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.pairs if seed < 4 else pytest.mark.nightly) for seed in range(40)]
)
def test_proofs_of_drawn_nets(seed: int) -> None:
    of, config, dataset = drawn(seed)
    verdict = verify(partial(build, NARROW), of, config, seed=seed, dataset=dataset)
    assert verdict.passed or verdict.reason.startswith("cannot judge"), verdict.reason


#: Defects of the assembled kernels: a text in their sources, and what stands there instead.
LIES = {
    "slopes without the mask": ("t.slope *= mask;", ""),
    "one mask for all samples": ("first + static_cast<unsigned>(sample)", "first"),
    "every step's masks alike": ("*step * static_cast<long long>(whole) + offset + begin", "offset + begin"),
    "the input's derivative": ("READS_OUTPUT<FUNCTION> ? y : t.value", "t.value"),
    "a mean over one more": ("(share / OUT)", "(share / (OUT + 1))"),
    "a bias left out": ("? b[first + p] : 0.0f", "? 0.0f : 0.0f"),
    "targets of the first sample": ("goal, 1.0f, row", "goal, 1.0f, 0"),
    "every step's settings alike": ("numbers[8LL * *step + threadIdx.x]", "numbers[threadIdx.x]"),
    "a slot that stays": ("if (second != nullptr) second[at] = b;", ""),
}
HONEST = Net("honest", (6,), (*linear(20, Tanh(), Dropout(0.5)), *linear(2)), HuberLoss(0.4))


@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=pytest.mark.slow if lie in list(LIES)[2:] else ()) for lie in LIES]
)
def test_a_lie_in_a_kernel_is_caught(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: set[str] = set()

    def lying(path: Path, text: str) -> KernelSource:
        source = assembled(path, text)
        if LIES[lie][0] not in source.text:
            return source
        told.add(lie)
        return replace(source, text=source.text.replace(*LIES[lie]))

    assembled = sources.assembled
    monkeypatch.setattr(sources, "assembled", lying)
    config = TrainConfig(batch_size=7, optimizer=Adam(learning_rate=0.01), epochs=2)
    dataset = drawn_data(6, 2, HONEST.loss, 7, np.random.default_rng(1))
    for made in (forward_source, gradient_source):
        made.cache_clear()
    try:
        verdict = verify(partial(build, NARROW), HONEST, config, seed=3, dataset=dataset)
    finally:
        for made in (forward_source, gradient_source):
            made.cache_clear()
    assert told and not verdict.passed and not verdict.reason.startswith(("cannot judge", "crash")), verdict.reason


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


def test_functions_before_the_first_layer() -> None:
    """They are the chain's, and so is the way back through them to a convolution."""
    layers = (Conv2d(out_channels=3, kernel_size=2), Flatten(), SiLU(), Dropout(0.2), *linear(9, Tanh()), *linear(4))
    of, random = Net("after images", (1, 4, 5), layers, MSELoss()), np.random.default_rng(3)
    x, y = random.normal(size=(17, 1, 4, 5)).astype(np.float32), random.normal(size=(17, 4)).astype(np.float32)
    config, images = TrainConfig(batch_size=7, learning_rate=0.5), Dataset("images", x, y, x[:1], y[:1])
    check_updates(partial(build, NARROW), of, config, images)
    with build(NARROW, of, config, State(params.initial(of, 1))) as trainer:
        trainer.load(images)
        assert isinstance(trainer, KernelTrainer) and len(kinds(trainer)) == 3 and kinds(trainer)[-1] is SmallChain


def test_weights_take_turns_where_shared_memory_is_small() -> None:
    on, of = device(shared=40 << 10), net(20, 60, 61, 60, 59, 5)
    plan = fastest((20, 60, 61, 60, 59, 5), 7, on.limits, False)
    assert plan is not None and plan.shared <= on.limits.shared_opt_in
    assert len({copy.place for copies in plan.copies for copy in copies}) < 5
    drawn = clear_of_switches(of, SGD_CONFIG, samples=9)
    assert compare_epoch(rung(on), drawn) > 0


#: Net whose layers do not fit into 44 KB of shared memory.
PIECES = Net("pieces", (5,), (*linear(90, SiLU()), *linear(100, Dropout(0.2)), *linear(2)), MSELoss())


def test_layers_in_pieces() -> None:
    """Layers whose weights do not fit, with sums over pieces on the way back."""
    on = device(shared=44 << 10, multiprocessors=2)
    dataset = drawn_data(5, 2, PIECES.loss, 7, np.random.default_rng(5)).but(train_weight=None)
    check_updates(partial(build, on), PIECES, TrainConfig(batch_size=7, learning_rate=0.5), dataset)
    with build(on, PIECES, SGD_CONFIG, case(PIECES, SGD_CONFIG, 1, 17).state) as trainer:
        trainer.load(dataset)
        assert isinstance(trainer, KernelTrainer) and trainer.chain is not None
        (chain,) = trainer.chain.segments
        assert isinstance(chain, SmallChain) and chain.plan.is_divided


@pytest.mark.parametrize(
    "widths", [(8, 8, 8), (20, 40, 41, 40, 39, 5), (3, *[60] * 9, 2), (100, 7, 90, 6), (13, 120, 120, 1)]
)
@pytest.mark.parametrize("shared", [24 << 10, 48 << 10, 227 << 10])
@pytest.mark.parametrize("has_dx", [False, True])
def test_each_pass_finds_its_weights(widths: tuple[int, ...], shared: int, has_dx: bool) -> None:
    """Copies in a plan's order: each pass's layer is at its place, and no copy overwrites what a pass still reads."""
    plan = fastest(widths, 64, device(shared=shared).limits, has_dx)
    if plan is None:
        assert shared < 48 << 10
        return
    last = len(widths) - 1
    layers = list(dict.fromkeys(piece.layer for piece in plan.passes[: plan.turn]))
    assert layers == [*range(1, last + 1)] and plan.has_dx == has_dx
    back = plan.passes[plan.turn :]
    assert list(dict.fromkeys(piece.layer for piece in back)) == [*range(last, 0 if has_dx else 1, -1)]
    for layer, outputs in enumerate(widths[1:], 1):
        for some in (plan.passes[: plan.turn], reversed(back)):
            assert sum(piece.outputs for piece in some if piece.layer == layer) in (0, outputs)
    held: dict[int, Piece] = {}
    for piece, place, copies in zip(plan.passes, plan.weights, plan.copies, strict=True):
        held |= {copy.place: copy.piece for copy in copies}
        assert held[place] == piece
    ends = sorted((each, each + 4 * held[each].size) for each in held)
    assert all(first[0] < second[0] for first, second in pairwise(ends))
    assert Copy(plan.passes[0], plan.weights[0]) in plan.copies[0]


@pytest.mark.parametrize("samples", [1, 2, 4, 8])
@pytest.mark.by_day("1", "8")
def test_each_number_of_samples_of_a_block(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpladder.ops.small_chain.plan.SAMPLES", (samples,))
    fastest.cache_clear()
    drawn = clear_of_switches(net(11, 9, 6, 4), SGD_CONFIG.but(batch_size=19), samples=24)
    assert compare_epoch(rung(DEVICE), drawn) > 0
    fastest.cache_clear()


@pytest.mark.slow
def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent() -> None:
    dropped = (Dropout(0.1), *linear(34, GELU(), Dropout(0.3)), *linear(18, ReLU(), bias=False), *linear(5))
    general = (CrossEntropyLoss(), CrossEntropyLoss((1.0, 2.0, 3.0, 4.0, 5.0), 0.1), HuberLoss())
    nets = net(21, 34, 18, 5), *(Net("dropped", (21,), dropped, loss) for loss in general), PIECES
    for of in nets:
        outputs, found = of.out_shape[0], set()
        dataset = drawn_data(of.in_shape[0], outputs, of.loss, 7, np.random.default_rng(2))
        start = case(of, ADAM_CONFIG, seed=2, samples=17).state
        for mode, order in (("fast", "forward"), ("fast", "reverse"), ("fast", "random"), ("check", "forward")):
            on = device(mode, order, 44 << 10, 2) if of is PIECES else device(mode, order)
            with build(on, of, ADAM_CONFIG, start) as trainer:
                trainer.load(dataset)
                trainer.run(Order(2, 0, 17), 0, 3)  # in check mode it raises at the first report
                if mode == "fast":
                    found.add(bits(trainer.state()))
        assert len(found) == 1


def test_where_there_is_no_chain() -> None:
    """Many samples, weights beyond shared memory; samples that are not on the device need no order."""
    for of, config, feed, wanted in (
        (net(54, 20, 7), SGD_CONFIG, "sync", [SmallChain]),
        (net(54, 20, 3000), SGD_CONFIG, "sync", [GemmLinear, GemmLinear]),
        (net(784, 256, 10), SGD_CONFIG, "resident", [ShortStem, ThinHead]),
        (net(784, 128, 100, 10), SGD_CONFIG, "resident", [ShortStem, SmallChain]),
    ):
        drawn = case(of, config, seed=1, samples=20)
        with build(idle(), of, config, drawn.state, feed) as trainer:
            trainer.load(drawn.dataset)
            assert isinstance(trainer, KernelTrainer) and kinds(trainer)[: len(wanted)] == wanted
    drawn = case(net(54, 20, 7), SGD_CONFIG.but(batch_size=600), seed=1, samples=601)
    with build(idle(), drawn.net, drawn.config, drawn.state) as trainer:
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
