"""Losses with settings or with weights of samples, as array expressions."""

from importlib import import_module
from typing import Any

import numpy as np

from ...nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss
from ..engine.base import Array, GeneralLossOp, module_of
from . import scalar


class ArrayLabelLoss(GeneralLossOp):
    """Cross-entropy with settings: loss = sum over samples of share * (-sum over c of q[c] log softmax(x)[c]); dx =
    share (softmax(x) sum(q) - q).

    q[c] = w[label] (1 - s) at the label, and w[c] s / classes at every class; s is the smoothing.
    """

    def __init__(self, x: Array, target: Array, dx: Array, loss: Loss, shares: Array | None = None) -> None:
        super().__init__(x, target, dx, loss, shares)
        assert isinstance(loss, CrossEntropyLoss)
        xp, (capacity, classes) = module_of(x), x.shape
        w = scalar.settings(loss, classes)
        self.weight = xp.asarray(w * (1 - loss.label_smoothing), x.dtype)
        self.spread = xp.asarray(w * (loss.label_smoothing / classes), x.dtype)
        self.number = xp.arange(capacity)
        self.wanted = self.scratch(x, x.shape)
        self.workspace += self.number.nbytes + self.weight.nbytes + self.spread.nbytes

    def forward(self, n: int, has_loss: bool = True) -> None:
        xp, x, e, q, number = module_of(self.x), self.x[:n], self.dx[:n], self.wanted[:n], self.number[:n]
        label = self.target[:n]
        best = x.argmax(axis=1)
        q[...] = self.spread
        q[number, label] += self.weight[label]
        xp.subtract(x, x[number, best][:, None], out=e)
        total = xp.exp(e).sum(axis=1)
        if has_loss:
            lost = q.sum(axis=1) * xp.log(total) - (q * e).sum(axis=1)
            self.loss[0] = _mean(xp, lost, self.shares, n)
            self.correct[0] = xp.count_nonzero(best == label)
        xp.exp(e, out=e)
        e *= (q.sum(axis=1) / total)[:, None]
        e -= q

    def backward(self, n: int) -> None:
        _divide(self.dx[:n], self.shares, n, 1)


class ArrayElementLoss(GeneralLossOp):
    """Loss by element: loss = sum over samples of share * mean of f(x, target); dx = share f'(x, target) / size."""

    def __init__(self, x: Array, target: Array, dx: Array, loss: Loss, shares: Array | None = None) -> None:
        super().__init__(x, target, dx, loss, shares)
        xp = module_of(x)
        self.size = x[0].size
        self.special = import_module("scipy.special" if xp is np else "cupyx.scipy.special")
        self.setting = xp.asarray(scalar.settings(loss, self.size).reshape(x.shape[1:]), x.dtype)

    def forward(self, n: int, has_loss: bool = True) -> None:
        xp, x, dx = module_of(self.x), self.x[:n], self.dx[:n]
        t = self.target[:n].reshape(x.shape)
        if has_loss:
            self.loss[0] = _mean(xp, self._values(xp, x, t).reshape(n, -1).mean(axis=1), self.shares, n)
            self.correct[0] = 0
        if isinstance(self.settings, BCEWithLogitsLoss):
            dx[...] = (1 - t) * self.special.expit(x) - self.setting * t * self.special.expit(-x)
            return
        xp.subtract(x, t, out=dx)
        if isinstance(self.settings, L1Loss):
            xp.sign(dx, out=dx)
        elif isinstance(self.settings, HuberLoss):
            xp.clip(dx, -self.setting, self.setting, out=dx)
        else:
            dx *= dx.dtype.type(2)

    def _values(self, xp: Any, x: Array, t: Array) -> Array:
        """Loss f(x, t) of each element, of the shape of x."""
        if isinstance(self.settings, BCEWithLogitsLoss):
            rest, zero = xp.log1p(xp.exp(-xp.abs(x))), x.dtype.type(0)
            return self.setting * t * (rest + xp.maximum(-x, zero)) + (1 - t) * (rest + xp.maximum(x, zero))
        d = xp.abs(x - t)
        if isinstance(self.settings, L1Loss):
            return d
        if isinstance(self.settings, HuberLoss):
            return xp.where(d <= self.setting, d * d / 2, self.setting * (d - self.setting / 2))
        return d * d

    def backward(self, n: int) -> None:
        _divide(self.dx[:n], self.shares, n, self.size)


def _mean(xp: Any, lost: Array, shares: Array | None, n: int) -> Any:
    """Sum of the samples' losses (n,) times their shares, or the mean without shares, in float64."""
    return xp.sum(lost if shares is None else lost * shares[:n], dtype=np.float64) / (n if shares is None else 1)


def _divide(dx: Array, shares: Array | None, n: int, size: int) -> None:
    """Multiply each sample's gradient in dx by its share / size, or by 1 / (n size) without shares, in place."""
    if shares is None:
        dx *= dx.dtype.type(1 / (n * size))
    else:
        dx *= (shares[:n] / dx.dtype.type(size)).reshape(-1, *[1] * (dx.ndim - 1))
