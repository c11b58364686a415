"""Batch normalisation as nested compiled loops over channels, samples and pixels; sums are float64."""

import math

import numpy as np

from ...nets import Layer
from ..engine.base import Array, Buffers, Op
from ..jit.cache import compiled


@compiled
def statistics(x: np.ndarray, n: int, mean: np.ndarray, var: np.ndarray) -> None:
    """Write mean and biased variance (channels,) float64 over n samples of x (capacity, channels, size)."""
    count = n * x.shape[2]
    for c in range(x.shape[1]):
        total = 0.0
        for sample in range(n):
            for i in range(x.shape[2]):
                total += x[sample, c, i]
        mean[c] = total / count
        total = 0.0
        for sample in range(n):
            for i in range(x.shape[2]):
                total += (x[sample, c, i] - mean[c]) ** 2
        var[c] = total / count


@compiled(error_model="numpy")
def move(held: np.ndarray, of_batch: np.ndarray, momentum: float, scale: float) -> None:
    """Move running statistics (channels,): held = (1 - momentum) held + momentum scale of_batch."""
    for c in range(len(held)):
        held[c] = (1 - momentum) * held[c] + momentum * (scale * of_batch[c])


@compiled(error_model="numpy")
def normalise(
    x: np.ndarray, y: np.ndarray, n: int, mean: np.ndarray, var: np.ndarray, eps: float, w: np.ndarray, b: np.ndarray
) -> None:
    """Normalise n samples: y = (x - mean) / sqrt(var + eps) w + b, by channel."""
    for c in range(x.shape[1]):
        factor = 1 / math.sqrt(var[c] + eps)
        for sample in range(n):
            for i in range(x.shape[2]):
                y[sample, c, i] = (x[sample, c, i] - mean[c]) * factor * w[c] + b[c]


@compiled(error_model="numpy")
def parameter_gradients(
    x: np.ndarray, dy: np.ndarray, n: int, mean: np.ndarray, var: np.ndarray, eps: float, dw: np.ndarray, db: np.ndarray
) -> None:
    """Write gradients (channels,): dw = sum of dy z, db = sum of dy, for z = (x - mean) / sqrt(var + eps)."""
    for c in range(x.shape[1]):
        factor = 1 / math.sqrt(var[c] + eps)
        products, total = 0.0, 0.0
        for sample in range(n):
            for i in range(x.shape[2]):
                products += dy[sample, c, i] * ((x[sample, c, i] - mean[c]) * factor)
                total += dy[sample, c, i]
        dw[c], db[c] = products, total


@compiled(error_model="numpy")
def input_gradient(
    x: np.ndarray, dy: np.ndarray, dx: np.ndarray, n: int, statistics: np.ndarray, eps: float, w: np.ndarray
) -> None:
    """Compute the input gradient dx = w / sqrt(var + eps) (dy - mean of dy - z mean of dy z). dx may be dy.

    statistics : (4, channels) float64, mean and variance of x, sums of dy z and of dy.
    """
    count = n * x.shape[2]
    for c in range(x.shape[1]):
        mean, var, dw, db = statistics[0, c], statistics[1, c], statistics[2, c], statistics[3, c]
        factor = 1 / math.sqrt(var + eps)
        for sample in range(n):
            for i in range(x.shape[2]):
                z = (x[sample, c, i] - mean) * factor
                dx[sample, c, i] = w[c] * factor * (dy[sample, c, i] - db / count - z * dw / count)


class LoopsBatchNorm(Op):
    """Batch normalisation in compiled loops; pixels of an image are one axis."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        channels = buffers.x.shape[1]
        self.statistics = self.scratch(buffers.x, (4, channels), np.float64)
        self.mean, self.var, self.dw, self.db = self.statistics
        self.w = np.ones(channels, buffers.x.dtype) if buffers.w is None else buffers.w
        self.b = np.zeros(channels, buffers.x.dtype) if buffers.b is None else buffers.b

    def _rows(self, a: Array) -> Array:
        return a.reshape(*a.shape[:2], -1)

    def forward(self, n: int) -> None:
        t, layer = self.buffers, self.layer
        x = self._rows(t.x)
        count = n * x.shape[2]
        statistics(x, n, self.mean, self.var)
        normalise(x, self._rows(t.y), n, self.mean, self.var, layer.eps, self.w, self.b)
        move(t.mean, self.mean, layer.momentum, 1.0)
        move(t.var, self.var, layer.momentum, count / (count - 1))

    def predict(self, n: int) -> None:
        t = self.buffers
        normalise(self._rows(t.x), self._rows(t.y), n, t.mean, t.var, self.layer.eps, self.w, self.b)

    def backward(self, n: int) -> None:
        t, eps = self.buffers, self.layer.eps
        x, dy = self._rows(t.x), self._rows(t.dy)
        parameter_gradients(x, dy, n, self.mean, self.var, eps, self.dw, self.db)
        if t.dx is not None:
            input_gradient(x, dy, self._rows(t.dx), n, self.statistics, eps, self.w)
        if t.dw is not None:
            t.dw[...], t.db[...] = self.dw, self.db
