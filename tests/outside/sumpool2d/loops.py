"""SumPool2d as nested loops."""

from warpladder.ops.engine.base import Op
from warpladder.ops.jit.cache import compiled


@compiled
def forward(x, y, n, k):
    for sample in range(n):
        for c in range(y.shape[1]):
            for p in range(y.shape[2]):
                for q in range(y.shape[3]):
                    total = 0.0
                    for i in range(k):
                        for j in range(k):
                            total += x[sample, c, p * k + i, q * k + j]
                    y[sample, c, p, q] = total


@compiled
def backward(dy, dx, n, k):
    dx[:n] = 0.0
    for sample in range(n):
        for c in range(dy.shape[1]):
            for p in range(dy.shape[2] * k):
                for q in range(dy.shape[3] * k):
                    dx[sample, c, p, q] = dy[sample, c, p // k, q // k]


class LoopsSumPool2d(Op):
    def forward(self, n):
        forward(self.buffers.x, self.buffers.y, n, self.layer.kernel_size)

    def backward(self, n):
        if self.buffers.dx is not None:
            backward(self.buffers.dy, self.buffers.dx, n, self.layer.kernel_size)


OP = LoopsSumPool2d
