"""Max pooling as array expressions: one pass over the whole batch for each position in the window."""

import numpy as np

from ...nets import Layer
from ..engine.base import Array, Buffers, Op, module_of


class ArrayMaxPool2d(Op):
    """Max pooling in NumPy or CuPy: forward stores the argmax index of each window, backward adds the gradient at that
    index.

    x is (n, c, h, w), y (n, c, oh, ow). Position t = i * k + j of all windows is x[:, :, i::s, j::s] cut to (oh, ow).
    """

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.k: int = layer.kernel_size  # type: ignore[attr-defined]
        self.s: int = layer.stride  # type: ignore[attr-defined]
        y = buffers.y
        if buffers.dx is not None:
            self.argmax = self.scratch(y, y.shape, np.min_scalar_type(self.k**2 - 1))
            self.latest = self.scratch(y, y.shape, self.argmax.dtype)
            self.mask = self.scratch(y, y.shape, np.bool_)
            self.routed = self.scratch(y, y.shape)
        self.is_disjoint = self.s >= self.k  # no pixel is in two windows
        self.is_covered = self.s == self.k and buffers.x.shape[2] % self.k == buffers.x.shape[3] % self.k == 0

    def _position(self, image: Array, t: int) -> Array:
        i, j = divmod(t, self.k)
        oh, ow = self.buffers.y.shape[2:]
        return image[:, :, i : i + (oh - 1) * self.s + 1 : self.s, j : j + (ow - 1) * self.s + 1 : self.s]

    def forward(self, n: int) -> None:
        t = self.buffers
        xp, x, y = module_of(t.x), t.x[:n], t.y[:n]
        y[...] = self._position(x, 0)
        if t.dx is not None:
            self.argmax[:n] = 0
        for number in range(1, self.k**2):
            candidate = self._position(x, number)
            if t.dx is not None:
                better = xp.greater(candidate, y, out=self.mask[:n])
                xp.multiply(better, self.argmax.dtype.type(number), out=self.latest[:n])
                # Numbers rise, and so the latest argmax stays.
                xp.maximum(self.argmax[:n], self.latest[:n], out=self.argmax[:n])
            xp.maximum(y, candidate, out=y)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        xp, dx, dy, argmax = module_of(t.dy), t.dx[:n], t.dy[:n], self.argmax[:n]
        if not self.is_covered:
            dx[...] = 0
        for number in range(self.k**2):
            mine = xp.equal(argmax, argmax.dtype.type(number), out=self.mask[:n])
            target = self._position(dx, number)
            if self.is_disjoint:
                xp.multiply(dy, mine, out=target)
            else:
                target += xp.multiply(dy, mine, out=self.routed[:n])
