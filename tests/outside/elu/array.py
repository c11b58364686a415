"""ELU as array expressions."""

import numpy as np

from warpladder.ops.engine.base import Op, module_of


class ArrayELU(Op):
    def __init__(self, layer, buffers):
        super().__init__(layer, buffers)
        self.alpha = np.float32(layer.alpha)

    def forward(self, n):
        t, xp = self.buffers, module_of(self.buffers.x)
        xp.expm1(xp.minimum(t.x[:n], 0), out=t.y[:n])
        t.y[:n] *= self.alpha
        xp.copyto(t.y[:n], t.x[:n], where=t.x[:n] > 0)

    def backward(self, n):
        t, xp = self.buffers, module_of(self.buffers.x)
        if t.dx is not None:
            xp.exp(xp.minimum(t.x[:n], 0), out=t.dx[:n])
            t.dx[:n] *= self.alpha * t.dy[:n]
            xp.copyto(t.dx[:n], t.dy[:n], where=t.x[:n] > 0)


OP = ArrayELU
