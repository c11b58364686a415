"""The native trainer's tiles of neighbouring pixels, for kernels of three columns and for samples."""

from __future__ import annotations

import pytest

from warpladder.config import TrainConfig
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU
from warpladder.trainers.base import State
from warpladder.trainers.native.plan import Plan
from warpladder.trainers.native.trainer import NativeTrainer
from warpladder.trainers.native.vectors import LANES, TOGETHER, WIDE
from warpladder.verify import verify


def conv(channels: int, padding: int) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=3, padding=padding)


@pytest.mark.parametrize(
    ("shape", "layers", "wide", "narrow"),
    [
        # rows of 26 pixels, two or three stretches, and borders of two, one and no zeros on their way back
        ((1, 5, 28), (conv(5, 0), ReLU(), conv(20, 0), ReLU(), conv(3, 2)), 5, 3),
        ((3, 4, 26), (conv(16, 1), ReLU(), conv(4, 1)), 3, 3),
        # three panels, of which the last has no neighbour with AVX-512; a stretch a row, whose both ends meet zeros
        ((1, 3, 15), (conv(40, 0), MaxPool2d(1), conv(4, 1)), 3, 0),
        ((1, 3, 11), (conv(16, 0), MaxPool2d(1), conv(4, 1)), 0, 3),
        # a border wider than the kernel, rows with nothing but zeros
        ((2, 3, 22), (conv(7, 3),), 1, 1),
        # pairs of panels forth and back, of rows whose stretches overlap, next to zeros and to none
        ((3, 4, 24), (conv(32, 0), ReLU(), conv(64, 2), ReLU(), conv(32, 1)), 5, 0),
        # too narrow, or too much of the last stretch left over
        ((1, 4, 8), (conv(4, 0),), 0, 0),
        ((1, 4, 32), (conv(4, 0),), 0, 0),
    ],
)
def test_stretches_train_every_width(shape: tuple[int, int, int], layers: tuple[Layer, ...], wide: int, narrow: int) -> None:
    net = Net("stretches", shape, (*layers, Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    config = TrainConfig(batch_size=3, learning_rate=1e-2)
    rows = [does for does, _ in Plan(net, config, 2, 3).rows]
    assert LANES < 8 or rows.count("stretched_convolve") == (wide if WIDE else narrow)

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, config)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("batch", [29, 60, 26])
def test_few_outputs_of_few_inputs_go_by_stretches_of_samples(batch: int) -> None:
    """Two threads with more samples than a stretch has, with such a number of them, and with fewer in the last batch."""
    layers = (Flatten(), Linear(out_features=12), ReLU(), Linear(out_features=7), ReLU(), Linear(out_features=5))
    net = Net("samples", (1, 3, 5), layers, CrossEntropyLoss())
    config = TrainConfig(batch_size=batch, learning_rate=1e-2)
    rows = [does for does, _ in Plan(net, config, 2, batch).rows]
    assert rows.count("multiply") == (5 if TOGETHER > 1 else 0)

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, config)
    assert verdict.passed, verdict.reason
