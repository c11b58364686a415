"""Linear layer as three matrix products of NumPy or CuPy."""

from ...nets import Layer
from ..engine.base import Array, Buffers, Op, module_of


class ArrayLinear(Op):
    """Linear layer: y = x W' + b; dW = dy' x; db = 1 dy; dx = dy W. Shapes: x (n, in), y (n, out), W (out, in)."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        dw, x, dy = buffers.dw, buffers.x, buffers.dy
        self.wide: tuple[Array, ...] = ()  # copies of x and dy, if sums over the batch have a wider dtype
        if dw is not None and dw.dtype != x.dtype:
            self.wide = self.scratch(x, x.shape, dw.dtype), self.scratch(dy, dy.shape, dw.dtype)
        self.ones = self.scratch(x, (len(x),), x.dtype if dw is None else dw.dtype)
        self.ones[...] = 1

    def forward(self, n: int) -> None:
        t = self.buffers
        y = t.y[:n]
        module_of(y).matmul(t.x[:n], t.w.T, out=y)
        y += t.b

    def backward(self, n: int) -> None:
        t = self.buffers
        xp, dy = module_of(t.dy), t.dy[:n]
        x, terms = t.x[:n], dy
        if self.wide:
            x, terms = (wide[:n] for wide in self.wide)
            x[...], terms[...] = t.x[:n], dy
        xp.matmul(terms.T, x, out=t.dw)
        xp.matmul(self.ones[:n], terms, out=t.db)  # many times faster than sum(axis=0) on long, narrow arrays
        if t.dx is not None:
            xp.matmul(dy, t.w, out=t.dx[:n])
