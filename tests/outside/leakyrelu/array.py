"""LeakyReLU as array expressions."""

import numpy as np

from warpladder.ops.engine.base import Op, module_of


class ArrayLeakyReLU(Op):
    def __init__(self, layer, buffers):
        super().__init__(layer, buffers)
        self.slope = np.float32(layer.negative_slope)

    def forward(self, n):
        t, xp = self.buffers, module_of(self.buffers.x)
        xp.multiply(t.x[:n], self.slope, out=t.y[:n])
        xp.copyto(t.y[:n], t.x[:n], where=t.x[:n] > 0)

    def backward(self, n):
        t, xp = self.buffers, module_of(self.buffers.x)
        if t.dx is not None:
            xp.multiply(t.dy[:n], self.slope, out=t.dx[:n])
            xp.copyto(t.dx[:n], t.dy[:n], where=t.x[:n] > 0)


OP = ArrayLeakyReLU
