"""Residual connections as array expressions of NumPy or CuPy."""

from ...nets import Branch, Shortcut, Sum
from ..engine.base import Op, module_of


class ArrayResidual(Op):
    """Residual layer: a `Branch` copies x and adds both gradients, a `Shortcut` copies `skip`, a `Sum` adds both."""

    def forward(self, n: int) -> None:
        t = self.buffers
        if isinstance(self.layer, Sum):
            module_of(t.x).add(t.x[:n], t.skip[:n], out=t.y[:n])
        else:
            t.y[:n] = (t.skip if isinstance(self.layer, Shortcut) else t.x)[:n]

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        if isinstance(self.layer, Branch) and t.dskip is not None:
            module_of(t.dx).add(t.dy[:n], t.dskip[:n], out=t.dx[:n])
        else:
            t.dx[:n] = (t.dskip if isinstance(self.layer, Shortcut) else t.dy)[:n]
