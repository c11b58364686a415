"""Losses with settings or with weights of samples, as loops.

Shapes: x, dx (n, classes), label and shares (n,); of losses by element x, target and dx are flat.
"""

import math

import numpy as np

from ...nets import CrossEntropyLoss, Loss
from ..engine.base import Array, GeneralLossOp
from ..jit.cache import compiled
from . import scalar

_value, _derivative = compiled(scalar.value), compiled(scalar.derivative)


@compiled(error_model="numpy")
def label_loss(
    x: np.ndarray, label: np.ndarray, w: np.ndarray, smoothing: float, shares: np.ndarray, dx: np.ndarray, n: int
) -> tuple[float, int]:
    """Sum of the samples' losses by their shares, and correct samples; dx = share (softmax(x) sum(q) - q)."""
    classes = x.shape[1]
    spread = smoothing / classes
    loss = 0.0
    hits = 0
    for sample in range(n):
        best = 0
        for c in range(classes):
            if x[sample, c] > x[sample, best]:
                best = c
        total = 0.0
        every = 0.0
        lost = 0.0
        for c in range(classes):
            q = w[c] * spread + (w[c] * (1 - smoothing) if c == label[sample] else 0.0)
            shifted = x[sample, c] - x[sample, best]
            total += math.exp(shifted)
            every += q
            lost -= q * shifted
        loss += shares[sample] * (every * math.log(total) + lost)
        for c in range(classes):
            q = w[c] * spread + (w[c] * (1 - smoothing) if c == label[sample] else 0.0)
            probability = math.exp(x[sample, c] - x[sample, best]) / total
            dx[sample, c] = shares[sample] * (probability * every - q)
        if best == label[sample]:
            hits += 1
    return loss, hits


@compiled(error_model="numpy")
def element_loss(
    function: int, setting: np.ndarray, x: np.ndarray, target: np.ndarray, shares: np.ndarray, dx: np.ndarray, n: int
) -> float:
    """Sum of the elements' losses by their samples' shares over the size; dx = share f'(x, target) / size."""
    size = len(setting)
    loss = 0.0
    for sample in range(n):
        share = shares[sample] / size
        for i in range(size):
            at = sample * size + i
            loss += share * _value(function, setting[i], x[at], target[at])
            dx[at] = share * _derivative(function, setting[i], x[at], target[at])
    return loss


class LoopsLabelLoss(GeneralLossOp):
    """Loss and gradient, both in the forward pass; shares of 1 / n where samples have no weights."""

    def __init__(self, x: Array, target: Array, dx: Array, loss: Loss, shares: Array | None = None) -> None:
        super().__init__(x, target, dx, loss, shares)
        assert isinstance(loss, CrossEntropyLoss)
        self.smoothing = loss.label_smoothing
        self.weight = scalar.settings(loss, x.shape[1]).astype(x.dtype)
        self.even = _Even(self, x)

    def forward(self, n: int, has_loss: bool = True) -> None:
        arrays = self.weight, self.smoothing, self.even.shares(n)
        loss, hits = label_loss(self.x, self.target, *arrays, self.dx, n)
        if has_loss:
            self.loss[0], self.correct[0] = loss, hits

    def backward(self, n: int) -> None:
        """dx is filled."""


class LoopsElementLoss(GeneralLossOp):
    """Loss and gradient, both in the forward pass; shares of 1 / n where samples have no weights."""

    def __init__(self, x: Array, target: Array, dx: Array, loss: Loss, shares: Array | None = None) -> None:
        super().__init__(x, target, dx, loss, shares)
        self.function, self.setting = scalar.number(loss), scalar.settings(loss, x[0].size).astype(x.dtype)
        self.even = _Even(self, x)

    def forward(self, n: int, has_loss: bool = True) -> None:
        x, target, dx = (array.reshape(-1) for array in (self.x, self.target, self.dx))
        loss = element_loss(self.function, self.setting, x, target, self.even.shares(n), dx, n)
        if has_loss:
            self.loss[0], self.correct[0] = loss, 0

    def backward(self, n: int) -> None:
        """dx is filled."""


class _Even:
    """An op's shares, or even ones of 1 / n."""

    def __init__(self, op: GeneralLossOp, x: Array) -> None:
        self.given = op.shares
        self.even = op.scratch(x, x.shape[:1]) if op.shares is None else None

    def shares(self, n: int) -> Array:
        """(capacity,), of which the first n are those of n samples."""
        if self.even is None:
            return self.given
        self.even[:n] = 1 / n
        return self.even
