"""Losses with settings or with weights of samples, as compiled loops.

Shapes: x, dx (n, classes), label and shares (n,); in losses by element x, target and dx are flat.
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
    """Write dx = share (softmax(x) sum(q) - q). Returns the sum of losses times shares, and the correct samples."""
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
    """Write dx = share f'(x, target) / size. Returns the sum over elements of share f(x, target) / size."""
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
    """Loss with labels, as compiled loops; `forward` computes the gradient too. Shares are 1 / n without weights."""

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
        """Do nothing: `forward` has filled dx."""


class LoopsElementLoss(GeneralLossOp):
    """Loss by element, as compiled loops; `forward` computes the gradient too. Shares are 1 / n without weights."""

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
        """Do nothing: `forward` has filled dx."""


class _Even:
    """Shares of an op's samples: the given ones, or 1 / n each."""

    def __init__(self, op: GeneralLossOp, x: Array) -> None:
        self.given = op.shares
        self.even = op.scratch(x, x.shape[:1]) if op.shares is None else None

    def shares(self, n: int) -> Array:
        """Shares (capacity,); the first n belong to the batch."""
        if self.even is None:
            return self.given
        self.even[:n] = 1 / n
        return self.even
