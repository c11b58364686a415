"""The native trainer's tiles of neighbouring pixels, for kernels of three columns and for samples."""

from __future__ import annotations

import numpy as np
import pytest
from innermost_loops import innermost
from numba import njit

from warpladder.config import TrainConfig
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.native.compiler.vectors import LANES, TOGETHER, WIDE
from warpladder.trainers.native.kernels.pixel_run_tile import make_run_tile
from warpladder.trainers.native.kernels.tile_sizes import PAIR_RUN, RUN, TAPS
from warpladder.trainers.native.program.plan import NativePlan
from warpladder.trainers.native.trainer import NativeTrainer


def conv(channels: int, padding: int) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=3, padding=padding)


@pytest.mark.parametrize(
    ("shape", "layers", "wide", "narrow"),
    [
        # rows of 26 pixels, two or three runs, and borders of two, one and no zeros in their gradients
        ((1, 5, 28), (conv(5, 0), ReLU(), conv(20, 0), ReLU(), conv(3, 2)), 5, 3),
        ((3, 4, 26), (conv(16, 1), ReLU(), conv(4, 1)), 3, 3),
        # three panels, of which the last has no neighbour with AVX-512; a run a row, whose both ends meet zeros
        ((1, 3, 15), (conv(40, 0), MaxPool2d(1), conv(4, 1)), 3, 0),
        ((1, 3, 11), (conv(16, 0), MaxPool2d(1), conv(4, 1)), 0, 3),
        # a border wider than the kernel, rows with nothing but zeros
        ((2, 3, 22), (conv(7, 3),), 1, 1),
        # pairs of panels forth and back, of rows whose runs overlap, next to zeros and to none
        ((3, 3, 24), (conv(32, 0), ReLU(), conv(32, 2), ReLU(), conv(32, 1)), 5, 0),
        # too narrow, or too much of the last run left over
        ((1, 4, 8), (conv(4, 0),), 0, 0),
        ((1, 4, 32), (conv(4, 0),), 0, 0),
    ],
)
@pytest.mark.by_day("shape0", "shape3")
def test_pixel_runs_train_every_width(
    shape: tuple[int, int, int], layers: tuple[Layer, ...], wide: int, narrow: int
) -> None:
    net = Net("runs", shape, (*layers, Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    config = TrainConfig(batch_size=3, learning_rate=1e-2)
    rows = [row.operation for row in NativePlan(net, config, 2, 3).rows]
    assert LANES < 8 or rows.count("convolve_pixel_runs") == (wide if WIDE else narrow)

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, config)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("batch", [29, 60, 26])
def test_few_outputs_of_few_inputs_go_by_runs_of_samples(batch: int) -> None:
    """Two threads with more samples than a run has, with exactly as many, and with fewer in the last batch."""
    layers = (Flatten(), Linear(out_features=12), ReLU(), Linear(out_features=7), ReLU(), Linear(out_features=5))
    net = Net("samples", (1, 3, 5), layers, CrossEntropyLoss())
    config = TrainConfig(batch_size=batch, learning_rate=1e-2)
    rows = [row.operation for row in NativePlan(net, config, 2, batch).rows]
    assert rows.count("multiply") == (5 if TOGETHER > 1 else 0)

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, config)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("length", "vectors"),
    [(RUN, 1), pytest.param(PAIR_RUN, 2, marks=pytest.mark.skipif(TOGETHER == 1, reason="pairs go otherwise"))],
)
def test_a_run_has_all_that_it_counts_in_registers(length: int, vectors: int) -> None:
    """An argument is the distance of its pixels: an address adds that up, and no pointer is on the stack."""
    tile = make_run_tile(TAPS, length=length, vectors=vectors)

    @njit
    def multiplied(a, b, c, n):
        tile((a, 0, n, n), (b, 0, n, n, n), (n, n), (c, 0, n), (0, b, 0), (0, b, 0, n))

    floats = np.zeros(64, np.float32)
    multiplied(floats, floats, np.zeros(64 * LANES, np.float32), 0)
    loops = [loop for assembly in multiplied.inspect_asm().values() for loop in innermost(assembly) if "vfmadd" in loop]
    if not loops:
        pytest.skip("no x86-64 with FMA, whose assembly this test reads")
    assert all(loop.count("vfmadd") == length * TAPS * vectors and "%rsp" not in loop for loop in loops)
