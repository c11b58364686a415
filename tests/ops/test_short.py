"""Linear layers on short batches, and first layers that gather their own samples, on the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compared_steps import bits, clear_of_switches, compare_epoch
from emulated_h200 import device
from kernel_layers import _layers as check
from kernel_tools import nan, send
from segments_here import for_gather, kinds, step_of, stored
from strategies import case

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Array
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, MSELoss, Net, ReLU
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import Slice
from warpladder.ops.engine.segments import Operands
from warpladder.ops.gather.wide import WideGather
from warpladder.ops.linear import short, short_gradients
from warpladder.ops.linear.gemm import GemmLinear
from warpladder.ops.linear.stem import ShortStem
from warpladder.ops.tables.graph import TABLE
from warpladder.ops.thin_chain.chain import ThinChain
from warpladder.ops.thin_chain.head import ThinHead
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)


DEVICE = device()
SMALL = device(shared=27 << 10)  # room for 256 inputs at a time


@pytest.mark.parametrize(
    ("inputs", "outputs", "n"), [(1, 17, 1), (131, 33, 65), (132, 36, 64), (1100, 20, 3), (68, 41, 250)]
)
@pytest.mark.parametrize("on", [DEVICE, SMALL], ids=["all inputs at once", "some at a time"])
def test_both_passes(on: EmulatedDevice, inputs: int, outputs: int, n: int) -> None:
    check(on, GemmLinear, (Linear(out_features=outputs), ReLU()), (inputs,), n + 2, n, False, 256)
    check(on, GemmLinear, (Linear(out_features=outputs),), (inputs,), n, n, False, 256)


@pytest.mark.parametrize("multiprocessors", [34, 18, 10])
def test_wider_blocks_of_the_input_gradient_where_there_are_few_multiprocessors(multiprocessors: int) -> None:
    """131 inputs are 17, 9 or 5 blocks of 8, 16 or 32; four rows of blocks hold 52 samples."""
    for inputs, outputs in ((131, 35), (132, 36)):
        on, layer = device(multiprocessors=multiprocessors), Linear(out_features=outputs)
        assert short_gradients.fits(on.limits, 52, inputs, outputs)
        check(on, GemmLinear, (layer, ReLU()), (inputs,), 60, 52, False, 256)
    assert not short_gradients.fits(on.limits, 257, inputs, outputs)


def gathered(on: EmulatedDevice, inputs: int, dtype: type, labelled: bool) -> list[np.ndarray]:
    """x, target and y of 21 samples from the 9th position of step 2 on, by the stem; and by the gather and the layer."""
    random, order, n, batch, offset, outputs = np.random.default_rng(7), Order(3, 2, 153), 21, 50, 9, 19
    source: np.ndarray = random.integers(0, 256, (153, inputs)).astype(dtype)
    labels = random.integers(0, 10, 153)
    samples = stored(on, source, 1 / 255, labels if labelled else None, order.words, step=2)
    w, b = (on.array(random.normal(size=size).astype(np.float32)) for size in ((outputs, inputs), outputs))
    found: list[np.ndarray] = []
    for fused in (True, False):
        x, y = on.array(nan(n + 2, inputs)), on.array(nan(n + 2, outputs))
        target: Array = on.array(np.full(n + 2, -7, np.int32))
        buffers, part = Buffers(x, y, w=w, b=b), Slice(n, batch, offset)
        layers = Linear(out_features=outputs), ReLU()
        if fused:
            nodes = step_of(layers, (inputs,), on.limits, n + 2, batch, gathers=True).part(0, 3)
            operands = Operands(buffers, (w, b), samples=samples, target=target if labelled else None)
            send(ShortStem(on, nodes, operands, 256).forward(part))
        else:
            gather = for_gather(WideGather, on, samples, x, target if labelled else None, batch)
            send([*gather.forward(part), short.forward(buffers, n, True)])
        found += [x.download(), target.download(), y.download()]
    return found


@pytest.mark.parametrize(
    ("inputs", "dtype", "labelled"), [(784, np.uint8, True), (35, np.uint8, False), (1100, np.float32, True)]
)
@pytest.mark.parametrize("on", [DEVICE, SMALL], ids=["all inputs at once", "some at a time"])
def test_the_first_layer_gathers_its_samples_to_the_bit(
    on: EmulatedDevice, inputs: int, dtype: type, labelled: bool
) -> None:
    found = gathered(on, inputs, dtype, labelled)
    for name, stem, apart in zip(("x", "target", "y"), found[:3], found[3:], strict=True):
        assert stem.tobytes() == apart.tobytes(), name
    assert np.isnan(found[2][21:]).all() and not np.isnan(found[2][:21]).any()


@pytest.mark.slow
def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent() -> None:
    runs = [
        b"".join(a.tobytes() for a in gathered(device(order=order), 35, np.uint8, True))
        for order in ("forward", "reverse", "random")
    ]
    assert len(set(runs)) == 1
    gathered(device(mode="check"), 35, np.uint8, True)  # raises at the first report


#: The graph rung's table without whole chains of small layers.
ALONE = replace(TABLE, chains=())


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    return KernelTrainer(net, config, state, DEVICE, ALONE, "resident")


RUNG = Rung("short", "", "", build)
CONFIG = TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
NETS = (
    Net(
        "labelled", (1, 5, 7), (Flatten(), Linear(out_features=20), ReLU(), Linear(out_features=4)), CrossEntropyLoss()
    ),
    Net("itself", (12,), (Linear(out_features=18), ReLU(), Linear(out_features=12)), MSELoss()),
    Net("one layer", (12,), (Linear(out_features=12),), MSELoss()),
)


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_steps(net: Net) -> None:
    drawn = clear_of_switches(net, CONFIG, samples=9)
    assert compare_epoch(RUNG, drawn) > 0
    with build(net, CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer)[0] is ShortStem


def test_where_there_is_no_stem() -> None:
    """Samples that are not on the device; a first layer that is computed with the loss; a batch that is too large."""
    thin = Net("thin", (1, 9, 1), (Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    for net, config, feed, wanted in (
        (NETS[0], CONFIG, "sync", [GemmLinear, ThinHead]),
        (thin, CONFIG, "resident", [ThinChain]),
        (thin, CONFIG, "sync", [ThinHead]),
        (NETS[0], CONFIG.but(batch_size=2000), "resident", [WideGather, GemmLinear, ThinHead]),
    ):
        drawn = case(net, config, seed=1, samples=2001)
        with KernelTrainer(net, config, drawn.state, DEVICE, ALONE, feed) as trainer:
            trainer.load(drawn.dataset)
            assert isinstance(trainer, KernelTrainer) and kinds(trainer) == wanted


def test_the_feeds_end_in_the_same_bits() -> None:
    drawn = case(NETS[0], CONFIG, seed=2, samples=18)
    found = set()
    for feed in ("resident", "sync"):
        with KernelTrainer(drawn.net, CONFIG, drawn.state, DEVICE, ALONE, feed) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 3)
            found.add(bits(trainer.state()))
    assert len(found) == 1
