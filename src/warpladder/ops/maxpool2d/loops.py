"""Max pooling as nested compiled loops. Shapes: x (n, c, h, w), y (n, c, oh, ow)."""

import numpy as np

from ...nets import Layer, MaxPool2d
from ..engine.base import Buffers, Op
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, y: np.ndarray, argmax: np.ndarray, n: int, k: int, stride: int) -> None:
    """Write the maximum of each window to y, and its position i * k + j in the window to argmax."""
    for sample in range(n):
        for c in range(y.shape[1]):
            for p in range(y.shape[2]):
                for q in range(y.shape[3]):
                    best = x[sample, c, p * stride, q * stride]
                    position = 0
                    for i in range(k):
                        for j in range(k):
                            value = x[sample, c, p * stride + i, q * stride + j]
                            if value > best or np.isnan(value):
                                best = value
                                position = i * k + j
                    y[sample, c, p, q] = best
                    argmax[sample, c, p, q] = position


@compiled
def backward(dy: np.ndarray, argmax: np.ndarray, dx: np.ndarray, n: int, k: int, stride: int) -> None:
    """Write the gradient dx, shaped as x: dy of each window, added at the position of its maximum, and 0 elsewhere."""
    dx[:n] = 0.0
    for sample in range(n):
        for c in range(dy.shape[1]):
            for p in range(dy.shape[2]):
                for q in range(dy.shape[3]):
                    position = argmax[sample, c, p, q]
                    dx[sample, c, p * stride + position // k, q * stride + position % k] += dy[sample, c, p, q]


class LoopsMaxPool2d(Op):
    """Max pooling in compiled loops."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        assert isinstance(layer, MaxPool2d)
        self.k, self.stride = layer.kernel_size, layer.stride
        self.argmax = self.scratch(buffers.y, buffers.y.shape, np.int32)

    def forward(self, n: int) -> None:
        t = self.buffers
        forward(t.x, t.y, self.argmax, n, self.k, self.stride)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            backward(t.dy, self.argmax, t.dx, n, self.k, self.stride)
