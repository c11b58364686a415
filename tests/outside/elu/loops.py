"""ELU as a loop over all numbers of a batch."""

import math

import numpy as np

from warpladder.ops.engine.base import Op
from warpladder.ops.jit.cache import compiled


@compiled
def forward(x, y, alpha, count):
    for i in range(count):
        y[i] = x[i] if x[i] > 0.0 else alpha * math.expm1(x[i])


@compiled
def backward(x, dy, dx, alpha, count):
    for i in range(count):
        dx[i] = dy[i] if x[i] > 0.0 else alpha * math.exp(x[i]) * dy[i]


class LoopsELU(Op):
    def forward(self, n):
        t = self.buffers
        forward(t.x.reshape(-1), t.y.reshape(-1), np.float32(self.layer.alpha), t.x[:n].size)

    def backward(self, n):
        t = self.buffers
        if t.dx is not None:
            alpha = np.float32(self.layer.alpha)
            backward(t.x.reshape(-1), t.dy.reshape(-1), t.dx.reshape(-1), alpha, t.x[:n].size)


OP = LoopsELU
