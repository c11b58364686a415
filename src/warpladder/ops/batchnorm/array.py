"""Batch normalisation as array expressions; means are computed in float64."""

from typing import Any

import numpy as np

from ...nets import Layer
from ..engine.base import Array, Buffers, Op, module_of


class ArrayBatchNorm(Op):
    """Batch normalisation as array expressions; normalised numbers (capacity, *shape) stay for the backward pass."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        x = buffers.x
        self.xp: Any = module_of(x)
        self.axes = (0, *range(2, x.ndim))
        self.shape = (-1, *[1] * (x.ndim - 2))
        self.element = x.dtype
        self.z: Array = None
        self.factor: Array = None  # 1 / sqrt(var + eps) of the batch, (channels,) float64

    def _wide(self, a: Array) -> Array:
        """Numbers (channels,) rounded to the arrays' element type, reshaped to broadcast over x."""
        return a.astype(self.element).reshape(self.shape)

    def _map(self, z: Array, out: Array) -> None:
        """Write the affine map out = z w + b; without w and b, out = z. out may be z."""
        t = self.buffers
        if t.w is None:
            if out is not z:
                out[...] = z
            return
        self.xp.multiply(z, t.w.reshape(self.shape), out=out)
        out += t.b.reshape(self.shape)

    def forward(self, n: int) -> None:
        t, xp, layer = self.buffers, self.xp, self.layer
        if self.z is None:
            self.z, self.squares = (self.scratch(t.x, t.x.shape) for _ in range(2))
        x, z, squares = t.x[:n], self.z[:n], self.squares[:n]
        mean = x.mean(self.axes, dtype=np.float64)
        xp.subtract(x, self._wide(mean), out=z)
        xp.multiply(z, z, out=squares)
        var = squares.mean(self.axes, dtype=np.float64)
        self.factor = 1 / xp.sqrt(var + layer.eps)
        z *= self._wide(self.factor)
        self._map(z, t.y[:n])
        count = x.size // x.shape[1]
        for held, of_batch in ((t.mean, mean), (t.var, var * (count / (count - 1)))):
            held[...] = (1 - layer.momentum) * held.astype(np.float64) + layer.momentum * of_batch

    def predict(self, n: int) -> None:
        t = self.buffers
        y = t.y[:n]
        self.xp.subtract(t.x[:n], t.mean.reshape(self.shape), out=y)
        y *= self._wide(1 / self.xp.sqrt(t.var.astype(np.float64) + self.layer.eps))
        self._map(y, y)

    def backward(self, n: int) -> None:
        t, xp = self.buffers, self.xp
        dy, z, products = t.dy[:n], self.z[:n], self.squares[:n]
        xp.multiply(dy, z, out=products)
        dw, db = (each.sum(self.axes, dtype=np.float64) for each in (products, dy))
        if t.dx is not None:
            factor = self.factor if t.w is None else self.factor * t.w
            count = dy.size // dy.shape[1]
            xp.multiply(z, self._wide(dw / count), out=products)
            dx = t.dx[:n]
            xp.subtract(dy, products, out=dx)
            dx -= self._wide(db / count)
            dx *= self._wide(factor)
        if t.dw is not None:
            t.dw[...], t.db[...] = dw, db
