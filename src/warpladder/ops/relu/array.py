"""ReLU as array expressions of NumPy or CuPy."""

import numpy as np

from ...nets import Layer
from ..engine.base import Buffers, Op, module_of


class ArrayReLU(Op):
    """ReLU: y = max(x, 0); dx = dy where y > 0, else 0. y may be x, and dx may be dy."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        if buffers.dx is not None:
            self.positive = self.scratch(buffers.y, buffers.y.shape, np.bool_)

    def forward(self, n: int) -> None:
        t = self.buffers
        module_of(t.x).maximum(t.x[:n], t.x.dtype.type(0), out=t.y[:n])

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        xp, positive = module_of(t.y), self.positive[:n]
        xp.greater(t.y[:n], t.y.dtype.type(0), out=positive)
        xp.multiply(t.dy[:n], positive, out=t.dx[:n])
