"""Nets that end in an average pool: the pool divides a slope equally among its pixels, so that in every batch a bias's
gradient has many equal terms, which cancel. Honest programs are judged there and pass, and faulty ones are found.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.ladder import find
from warpladder.nets import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Layer,
    Linear,
    MSELoss,
    Net,
    ReLU,
)
from warpladder.ops.avgpool2d.array import ArrayAvgPool2d
from warpladder.ops.conv2d.array import ArrayConv2d
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.proof.bias_sums import has_like_terms
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


def pooled(*layers: Layer, smoothing: float = 0.0) -> Net:
    body = (Conv2d(out_channels=5, kernel_size=3, padding=1), *layers, Flatten())
    return Net("pooled", (2, 9, 7), body, CrossEntropyLoss(label_smoothing=smoothing))


NETS = {
    "a convolution": pooled(AdaptiveAvgPool2d(1)),
    "a relu": pooled(ReLU(), AdaptiveAvgPool2d(1)),
    "a convolution of 1 x 1": pooled(
        ReLU(), Conv2d(out_channels=3, kernel_size=1), AdaptiveAvgPool2d(1), smoothing=0.1
    ),
    "windows": pooled(ReLU(), Conv2d(out_channels=3, kernel_size=1), AvgPool2d(3)),
}


@pytest.mark.parametrize("size", [6, 40])
@pytest.mark.parametrize("rung", ["numpy", "native", "loops"])
@pytest.mark.parametrize("ends", NETS)
@pytest.mark.by_day("a convolution-numpy-40", "a convolution of 1 x 1-numpy-6", "a relu-numpy-40")
def test_honest_rungs_are_judged_and_pass(ends: str, rung: str, size: int) -> None:
    for seed in range(1 if rung == "numpy" else 4):
        verdict = verify(find(rung).build, NETS[ends], TrainConfig(batch_size=size), seed=seed, reach=4)
        assert verdict.passed, verdict.reason


class LeavesAPixelOut(ArrayConv2d):
    """Bias gradient without the last pixel of each image."""

    def backward(self, n: int) -> None:
        super().backward(n)
        self.buffers.db[...] -= self.buffers.dy[:n, :, -1, -1].sum(axis=0)


class LeavesASampleOut(ArrayConv2d):
    """Bias gradient without the last sample of a batch."""

    def backward(self, n: int) -> None:
        super().backward(n)
        self.buffers.db[...] -= self.buffers.dy[n - 1].sum(axis=(1, 2))


class IsSlightlyOff(ArrayConv2d):
    """Bias gradient of one channel that is a ten thousandth too large."""

    def backward(self, n: int) -> None:
        super().backward(n)
        self.buffers.db[-1] *= np.float32(1.0001)


class HasAnotherArea(ArrayAvgPool2d):
    """Gradient divided by one pixel more than there are."""

    def backward(self, n: int) -> None:
        share = self.share
        self.share = self.share.dtype.type(1 / (1 / share + 1))
        super().backward(n)
        self.share = share


LIARS = [
    *((Conv2d, op) for op in (LeavesAPixelOut, LeavesASampleOut, IsSlightlyOff)),
    (AdaptiveAvgPool2d, HasAnotherArea),
]


def with_op(kind: type[Layer], op: type, net: Net, config: TrainConfig, state: State) -> Trainer:
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers={**TABLE.layers, kind: op}))


@pytest.mark.parametrize("ends", ["a convolution", "a relu", "a convolution of 1 x 1"])
@pytest.mark.parametrize(("kind", "op"), LIARS, ids=lambda value: value.__name__)
@pytest.mark.by_day("Conv2d-LeavesAPixelOut-a convolution", "Conv2d-IsSlightlyOff-a convolution of 1 x 1")
def test_faulty_gradients_are_found(ends: str, kind: type[Layer], op: type) -> None:
    for config in (TrainConfig(batch_size=6), TrainConfig(batch_size=40, optimizer=Adam(0.01))):
        for seed in range(2):
            verdict = verify(partial(with_op, kind, op), NETS[ends], config, seed=seed, reach=4)
            assert verdict.judged and not verdict.passed
            assert verdict.reason.startswith(("update", "slots")), verdict.reason


def test_only_pools_behind_the_last_trained_layer_have_like_terms() -> None:
    assert all(map(has_like_terms, NETS.values()))
    assert not has_like_terms(pooled(AdaptiveAvgPool2d(1), Flatten(), Linear(out_features=3)))
    assert not has_like_terms(Net("flat", (4,), (Linear(out_features=3),), MSELoss()))
