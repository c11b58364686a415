"""One pass over many samples on the emulator: steps against the reference, bits, and planted defects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import emulated_h200
import numpy as np
import pytest
from compared_steps import bits, check_updates
from drawn_chains import drawn
from segments_here import kinds
from strategies import case

from warpladder.config import TrainConfig
from warpladder.data import Dataset
from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.device import source as sources
from warpladder.device.emulator import why_not
from warpladder.device.source import KernelSource
from warpladder.errors import WarpladderError
from warpladder.nets import (
    GELU,
    CrossEntropyLoss,
    Dropout,
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
from warpladder.ops.one_pass import plan
from warpladder.ops.one_pass.chain import OnePass
from warpladder.ops.one_pass.finish import finish_source
from warpladder.ops.one_pass.source import pass_source
from warpladder.ops.tables.tensor import TABLE
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine
from warpladder.proof import verify
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)


#: A device with one multiprocessor, so that a block has several tiles.
device = partial(emulated_h200.device, multiprocessors=1)
DEVICE = device()


def build(on: Device, net: Net, config: TrainConfig, state: State) -> Trainer:
    return KernelTrainer(net, config, state, on, TABLE, "resident")


@pytest.fixture(autouse=True)
def any_batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches of a tile or more take the pass, and a proof's small ones as well."""
    monkeypatch.setattr(plan, "FEWEST", 1)
    plan.planned.cache_clear()
    yield
    plan.planned.cache_clear()


def linear(width: int, *functions: Layer, bias: bool = True) -> tuple[Layer, ...]:
    return (Linear(out_features=width, bias=bias), *functions)


def pixels(inputs: int, classes: int, samples: int, seed: int = 1) -> Dataset:
    random = np.random.default_rng(seed)
    x = random.integers(0, 256, (samples, inputs), np.uint8)
    y = random.integers(0, classes, samples).astype(np.int32)
    return Dataset("pixels", x, y, x[:1], y[:1], 1 / 255)


def floats(inputs: int, outputs: int, loss: Loss, samples: int, seed: int = 1) -> Dataset:
    """Inputs whose sizes are far apart."""
    random = np.random.default_rng(seed)
    x = (random.normal(size=(samples, inputs)) * 2.0 ** random.integers(-3, 4, inputs)).astype(np.float32)
    y: np.ndarray = random.normal(size=(samples, outputs)).astype(np.float32)
    if isinstance(loss, CrossEntropyLoss):
        y = random.integers(0, outputs, samples).astype(np.int32)
    return Dataset("floats", x, y, x[:1], y[:1])


#: First layers, functions and losses: inputs, layers, loss, bytes, samples; several tiles and a part of one.
NETS: dict[str, tuple[int, tuple[Layer, ...], Loss, bool, int]] = {
    "odd inputs": (63, (*linear(10, ReLU()), *linear(10)), CrossEntropyLoss(), True, 600),
    "eight splits": (130, (*linear(5, ReLU()), *linear(3)), CrossEntropyLoss(), True, 200),
    "short tiles": (784, (*linear(32, ReLU()), *linear(10)), CrossEntropyLoss(), True, 100),
    "two roles": (784, (*linear(10, ReLU()), *linear(10)), CrossEntropyLoss(), True, 300),
    "one layer": (20, linear(17), CrossEntropyLoss((1.0, 2.0) * 8 + (0.5,), 0.1), True, 140),
    "floats": (54, (*linear(16, ReLU()), *linear(7)), CrossEntropyLoss(), False, 217),
    "wide": (33, (*linear(61, GELU()), *linear(20, Tanh(), bias=False), *linear(2)), HuberLoss(0.4), False, 270),
    "one output": (100, (*linear(8, SiLU(), bias=False), *linear(1)), MSELoss(), False, 130),
    "masks": (9, (*linear(6, LeakyReLU(-0.3), Dropout(0.3)), *linear(4, Sigmoid())), L1Loss(), True, 130),
}


def made(name: str) -> tuple[Net, Dataset]:
    inputs, layers, loss, is_bytes, samples = NETS[name]
    net = Net(name, (inputs,), layers, loss)
    data = floats(inputs, net.out_shape[0], loss, samples)
    if is_bytes:
        found = pixels(inputs, net.out_shape[0], samples)
        data = found if isinstance(loss, CrossEntropyLoss) else found.but(train_y=data.train_y, test_y=data.test_y)
    return net, data


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.by_day(*(f"{number % 2 == 0}-{name}]" for number, name in enumerate(NETS)))
def test_steps(name: str, is_full: bool) -> None:
    """All samples at once, and shuffled batches with a partial last one."""
    net, data = made(name)
    config = TrainConfig(batch_size=None if is_full else len(data.train_x) * 2 // 3, learning_rate=0.5)
    check_updates(partial(build, DEVICE), net, config, data)
    with build(DEVICE, net, config, State(params.initial(net, 0))) as trainer:
        trainer.load(data)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer) == [OnePass]


def test_settings_of_each_step_and_weights_of_samples() -> None:
    """A schedule's rates, Adam's slots, and shares in the mean, within a proof's bounds."""
    net, data = made("floats")
    weights = np.random.default_rng(2).uniform(0, 2, len(data.train_x)).astype(np.float32)
    config = TrainConfig(batch_size=80, learning_rate=0.5)
    check_updates(partial(build, DEVICE), net, config, data.but(train_weight=weights))
    adam = TrainConfig(batch_size=80, optimizer=Adam(0.01), schedule=Cosine(warmup=1), epochs=2)
    verdict = verify(partial(build, DEVICE), net, adam, seed=3, dataset=data)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("exponent", [-50, -30, 33])
def test_sizes_that_halves_do_not_have(exponent: int) -> None:
    """Inputs of 2^exponent: their gradients, and weights as many times larger, are exact to fp32."""
    net, data = made("floats")
    some = data.but(train_x=data.train_x * np.float32(2.0**exponent))
    start = State(params.initial(net, 2))
    start.params[: 54 * 16] *= np.float32(2.0**-exponent)
    check_updates(partial(build, DEVICE), net, TrainConfig(batch_size=None, learning_rate=0.5), some, start)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.pairs if seed < 4 else pytest.mark.nightly) for seed in range(40)]
)
def test_proofs_of_drawn_nets(seed: int) -> None:
    of, config, dataset = drawn(seed)
    verdict = verify(partial(build, DEVICE), of, config, seed=seed, dataset=dataset)
    assert verdict.passed or verdict.reason.startswith("cannot judge"), verdict.reason


#: Defects of the kernels: a text in their sources, and what stands there instead.
LIES = {
    "stale weights": ("split_weights<Shape>(fragments, exponents, w1, sizes);",
        "if (*step == 0) split_weights<Shape>(fragments, exponents, w1, sizes);"),
    "a split's part lost": ("split < T::SPLITS; ++split) sum +=", "split < T::SPLITS - 1; ++split) sum +="),
    "a block's sums lost": ("finish_sum<PARTS>(sums, blocks,", "finish_sum<PARTS>(sums, max(1, blocks - 1),"),
    "a tile read twice": ("fetch<Shape>(tile_of(now),", "fetch<Shape>(tile_of(max(0, now - 1)),"),
    "samples beyond the last one": ("const bool present = at < n;", "const bool present = true;"),
    "low halves left out": ("low = two_halves(x - low_half(high), y - high_half(high));", "low = 0u;"),
    "another tile's scale": ("add_gradient<Shape>(before_it, gradient, sizes_before", "add_gradient<Shape>(before_it, gradient, sizes_now"),
    "a column's products of half a tile": ("s < ROWS; s += 4 * SHARES", "s < ROWS / 2; s += 4 * SHARES"),
    "a share of the samples left out": ("there + sum[k][q][half] :", "there :"),
    "losses of one warp": ("for (int k = 1; k < WARPS; ++k) found.lost +=", "for (int k = 1; k < 2; ++k) found.lost +="),
    "the scale of bytes applied twice": ("held[k] * (scale * T::BACK)", "held[k] * (scale * scale * T::BACK)"),
    "a wait for another phase": ("now / STAGES % 2);", "0);"),
    "other biases": ("k < OUT ? b[k] : 0.0f;", "k < OUT ? b[k] + 0.01f * k : 0.0f;"),
}  # fmt: skip


@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=pytest.mark.slow if lie in list(LIES)[6:] else ()) for lie in LIES]
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
    net, data = made("odd inputs")[0], pixels(63, 10, 530)  # four tiles of each block, and a batch of one tile
    config, caches = TrainConfig(batch_size=500, learning_rate=0.5), (pass_source, finish_source)
    for each in caches:
        each.cache_clear()
    try:
        if lie == "stale weights":  # at another step
            caught = not verify(partial(build, device()), net, config, seed=3, dataset=data).passed
        else:
            check_updates(partial(build, device()), net, config, data)
            caught = False
    except (AssertionError, WarpladderError):
        caught = True
    finally:
        for each in caches:
            each.cache_clear()
    assert told and caught


@pytest.mark.slow
def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent() -> None:
    for name in ("odd inputs", "wide", "masks", "two roles"):
        net, data = made(name)
        config, found = TrainConfig(batch_size=len(data.train_x) - 3, optimizer=Adam(0.01)), set()
        start = case(net, config, seed=2, samples=17).state
        for mode, order in (("fast", "forward"), ("fast", "reverse"), ("fast", "random"), ("check", "forward")):
            with build(device(mode, order), net, config, start) as trainer:
                trainer.load(data)
                trainer.run(Order(2, 0, len(data.train_x)), 0, 2)  # in check mode it raises at the first report
                if mode == "fast":
                    found.add(bits(trainer.state()))
        assert len(found) == 1


def test_where_there_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few samples, layers too wide, layers before the first one, and GPUs without a copy engine."""
    new, old, net, data = emulated_h200.idle(), emulated_h200.idle(), *made("odd inputs")
    new.limits = DEVICE.limits
    old.limits = replace(DEVICE.limits, cluster=1)
    image = Net("dropped", (63,), (Dropout(0.1), *linear(9), *linear(10)), CrossEntropyLoss())
    broad = Net("broad", (63,), (*linear(80, ReLU()), *linear(10)), CrossEntropyLoss())
    for on, of in ((old, net), (new, image), (new, broad)):
        with build(on, of, TrainConfig(batch_size=None), State(params.initial(of, 0))) as trainer:
            trainer.load(data)
            assert isinstance(trainer, KernelTrainer) and OnePass not in kinds(trainer)
    with build(new, net, TrainConfig(batch_size=None), State(params.initial(net, 0))) as trainer:
        trainer.load(data)
        assert isinstance(trainer, KernelTrainer) and OnePass in kinds(trainer)
    monkeypatch.setattr(plan, "FEWEST", 601)
    plan.planned.cache_clear()
    with build(new, net, TrainConfig(batch_size=None), State(params.initial(net, 0))) as trainer:
        trainer.load(data)
        assert isinstance(trainer, KernelTrainer) and OnePass not in kinds(trainer)
