"""LeakyReLU as a loop over all numbers of a batch."""

import numpy as np

from warpladder.ops.engine.base import Op
from warpladder.ops.jit.cache import compiled


@compiled
def forward(x, y, slope, count):
    for i in range(count):
        y[i] = x[i] if x[i] > 0.0 else slope * x[i]


@compiled
def backward(x, dy, dx, slope, count):
    for i in range(count):
        dx[i] = dy[i] if x[i] > 0.0 else slope * dy[i]


class LoopsLeakyReLU(Op):
    def forward(self, n):
        t = self.buffers
        forward(t.x.reshape(-1), t.y.reshape(-1), np.float32(self.layer.negative_slope), t.x[:n].size)

    def backward(self, n):
        t = self.buffers
        if t.dx is not None:
            slope = np.float32(self.layer.negative_slope)
            backward(t.x.reshape(-1), t.dy.reshape(-1), t.dx.reshape(-1), slope, t.x[:n].size)


OP = LoopsLeakyReLU
