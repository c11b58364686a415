"""Linear as three matrix products."""

from __future__ import annotations

from ...nets import Layer
from ..base import Buffers, Op, module_of


class ArrayLinear(Op):
    """y = x W' + b; dW = dy' x; db = 1 dy; dx = dy W. Here x is (n, in), y (n, out), W (out, in)."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.ones = self.scratch(buffers.x, (len(buffers.x),))
        self.ones[...] = 1

    def forward(self, n: int) -> None:
        t = self.buffers
        y = t.y[:n]
        module_of(y).matmul(t.x[:n], t.w.T, out=y)
        y += t.b

    def backward(self, n: int) -> None:
        t = self.buffers
        xp, dy = module_of(t.dy), t.dy[:n]
        xp.matmul(dy.T, t.x[:n], out=t.dw)
        xp.matmul(self.ones[:n], dy, out=t.db)  # many times faster than sum(axis=0) on long, narrow arrays
        if t.dx is not None:
            xp.matmul(dy, t.w, out=t.dx[:n])
