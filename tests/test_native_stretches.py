"""The native trainer's tiles of neighbouring pixels, which a convolution's last panel takes where it has no neighbour."""

from __future__ import annotations

import pytest

from warpladder.config import TrainConfig
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU
from warpladder.trainers.base import State
from warpladder.trainers.native.plan import Plan
from warpladder.trainers.native.tiles import STRETCH
from warpladder.trainers.native.trainer import NativeTrainer
from warpladder.trainers.native.vectors import TOGETHER
from warpladder.trainers.native.views import FIELDS
from warpladder.verify import verify

WHETHER = 3 * FIELDS + 10  # the operand of "convolve" that says whether its last panel goes by stretches


def conv(channels: int, padding: int) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=3, padding=padding)


@pytest.mark.parametrize(
    ("shape", "layers", "stretched"),
    [
        # two stretches a row, and borders of two, one and no zeros on their way back
        ((1, 5, 28), (conv(5, 0), ReLU(), conv(20, 0), ReLU(), conv(3, 2)), [True, False, True, False, True]),
        ((3, 4, 24), (conv(16, 1), ReLU(), conv(4, 1)), [True, True, True]),
        # the second of three panels has a neighbour, the third has none; one stretch a row, whose both ends meet zeros
        ((1, 3, 15), (conv(40, 0), MaxPool2d(1), conv(4, 1)), [True, True, True]),
        # a border wider than the kernel, rows with nothing but zeros
        ((2, 3, 20), (conv(7, 3),), [True]),
        # too narrow, or too much of the last stretch left over
        ((1, 4, 12), (conv(4, 0),), [False]),
        ((1, 4, 30), (conv(4, 0),), [False]),
    ],
)
def test_stretches_train_every_width(shape: tuple[int, int, int], layers: tuple[Layer, ...], stretched: list[bool]) -> None:
    net = Net("stretches", shape, (*layers, Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    config = TrainConfig(batch_size=3, learning_rate=1e-2)
    rows = [operands for does, operands in Plan(net, config, 2, 3).rows if does == "convolve" and operands[3 * FIELDS + 1] == 3]
    assert STRETCH == 13
    assert [bool(operands[WHETHER]) for operands in rows] == [each and TOGETHER > 1 for each in stretched]

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, config)
    assert verdict.passed, verdict.reason
