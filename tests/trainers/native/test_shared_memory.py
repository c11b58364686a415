"""Tensors of the native trainer that take the memory of others: pixels that a Linear layer reads as they lie, gradients
where activations are no longer read.
"""

from __future__ import annotations

import pytest

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.native.program.plan import NativePlan
from warpladder.trainers.native.trainer import NativeTrainer

CONFIG = TrainConfig(batch_size=4, learning_rate=1e-2)


@pytest.mark.parametrize(
    ("layers", "flattens"),
    [
        (
            (Conv2d(out_channels=16, kernel_size=3), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=40), ReLU()),
            False,
        ),
        ((Conv2d(out_channels=32, kernel_size=3), MaxPool2d(2, stride=1), Flatten(), Linear(out_features=3)), False),
        # channels that are padded, gaps between pixels, and borders for another convolution
        ((Conv2d(out_channels=20, kernel_size=3), MaxPool2d(2), Flatten()), True),
        ((Conv2d(out_channels=128, kernel_size=3), MaxPool2d(2), Flatten()), True),
        ((Conv2d(out_channels=16, kernel_size=3), ReLU(), Conv2d(out_channels=16, kernel_size=2), Flatten()), True),
        # the gradient before a convolution takes the memory of its output, and does not fit there
        (
            (Conv2d(out_channels=16, kernel_size=3), Conv2d(out_channels=32, kernel_size=1), MaxPool2d(2), Flatten()),
            False,
        ),
        (
            (Conv2d(out_channels=48, kernel_size=3), Conv2d(out_channels=16, kernel_size=2), MaxPool2d(2), Flatten()),
            False,
        ),
    ],
)
@pytest.mark.by_day("layers0", "layers2", "layers4", "layers5")
def test_tensors_in_others_memory(layers: tuple[Layer, ...], flattens: bool) -> None:
    net = Net("memory", (2, 7, 8), (*layers, Linear(out_features=10)), CrossEntropyLoss())
    operations = {row.operation for row in NativePlan(net, CONFIG, 2, 4).rows}
    assert operations.isdisjoint({"flatten", "unflatten"}) != flattens

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, CONFIG)
    assert verdict.passed, verdict.reason


def test_four_samples_of_cnn_are_a_block() -> None:
    assert NativePlan(nets.cnn(), CONFIG, 1, 64).sharing.block == 4
