"""Trainers with a wrong layer: each mistake that people make in these layers is caught by the proof."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from warpladder.config import TrainConfig
from warpladder.nets import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Layer,
    LeakyReLU,
    Linear,
    Net,
    Sigmoid,
    SiLU,
    Tanh,
)
from warpladder.ops.activation.array import ArrayActivation
from warpladder.ops.avgpool2d.array import ArrayAvgPool2d
from warpladder.ops.avgpool2d.reference import positions
from warpladder.ops.engine.base import Op
from warpladder.ops.tables.array import TABLE
from warpladder.proof import verify
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


class FromTheWrongSide(ArrayActivation):
    """Computes the derivative from the input where it is a function of the output."""

    def backward(self, n: int) -> None:
        t = self.buffers
        self.times_derivative(self, t.x[:n], t.dx[:n], self.spare[:n])
        t.dx[:n] *= t.dy[:n]


class OpenEverywhere(ArrayActivation):
    """Lets the gradient through without a factor."""

    def backward(self, n: int) -> None:
        self.buffers.dx[:n] = self.buffers.dy[:n]


class Approximates(ArrayActivation):
    """Computes GELU by its approximation, which is off by less than 0.0005."""

    def __init__(self, layer, buffers):
        super().__init__(GELU(approximate="tanh"), buffers)


class ForgetsTheProduct(ArrayActivation):
    """Takes the sigmoid for SiLU's derivative, without that of the sigmoid itself."""

    def backward(self, n: int) -> None:
        t = self.buffers
        self.special.expit(t.x[:n], out=t.dx[:n])
        t.dx[:n] *= t.dy[:n]


class AddsUp(ArrayAvgPool2d):
    """Forgets to divide the gradient by the window's area."""

    def backward(self, n: int) -> None:
        share, self.share = self.share, self.share.dtype.type(1)
        super().backward(n)
        self.share = share


class LastWindowOnly(ArrayAvgPool2d):
    """Overwrites the gradient where windows overlap."""

    def backward(self, n: int) -> None:
        t = self.buffers
        t.dx[:n] = 0
        for target in positions(self.layer, t.dx[:n]):
            target[...] = t.dy[:n] * self.share


def net(layer: Layer) -> Net:
    layers: tuple[Layer, ...]
    if isinstance(layer, AvgPool2d | AdaptiveAvgPool2d):
        layers = (Conv2d(out_channels=2, kernel_size=2), layer, Flatten(), Linear(out_features=3))
        return Net("one", (1, 5, 6), layers, CrossEntropyLoss())
    layers = (Linear(out_features=6), layer, Linear(out_features=3))
    return Net("one", (5,), layers, CrossEntropyLoss())


def with_op(kind: type[Layer], op: type[Op], net: Net, config: TrainConfig, state: State) -> Trainer:
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers={**TABLE.layers, kind: op}))


LIARS = (
    (Tanh(), FromTheWrongSide), (Sigmoid(), FromTheWrongSide), (LeakyReLU(), OpenEverywhere),
    (GELU(), Approximates), (SiLU(), ForgetsTheProduct), (AdaptiveAvgPool2d(1), AddsUp), (AvgPool2d(2), AddsUp), (AvgPool2d(3, 1), LastWindowOnly),
)  # fmt: skip


@pytest.mark.parametrize(("layer", "op"), LIARS, ids=lambda value: getattr(value, "__name__", None) or str(value))
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_layer_is_caught(layer: Layer, op: type[Op]) -> None:
    verdict = verify(partial(with_op, type(layer), op), net(layer), TrainConfig(batch_size=4))
    assert not verdict.passed
    assert verdict.judged and verdict.reason.startswith(("update", "loss", "correct")), verdict.reason


@pytest.mark.parametrize("layer", [layer for layer, _ in LIARS], ids=str)
@pytest.mark.usefixtures("cases_once")
def test_the_honest_layer_passes(layer: Layer) -> None:
    verdict = verify(partial(with_op, type(layer), TABLE.layers[type(layer)]), net(layer), TrainConfig(batch_size=4))
    assert verdict.passed, verdict.reason
