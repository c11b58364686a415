"""Linear as three matrix products."""

from __future__ import annotations

from ..base import Op, module_of


class ArrayLinear(Op):
    """y = x W' + b; dW = dy' x; db = the column sums of dy; dx = dy W. Here x is (n, in), y (n, out), W (out, in)."""

    def forward(self, n: int) -> None:
        t = self.buffers
        y = t.y[:n]
        module_of(y).matmul(t.x[:n], t.w.T, out=y)
        y += t.b

    def backward(self, n: int) -> None:
        t = self.buffers
        xp, dy = module_of(t.dy), t.dy[:n]
        xp.matmul(dy.T, t.x[:n], out=t.dw)
        xp.sum(dy, axis=0, out=t.db)
        if t.dx is not None:
            xp.matmul(dy, t.w, out=t.dx[:n])
