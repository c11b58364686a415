"""Average pooling as nested compiled loops. Shapes: x (n, c, h, w), y (n, c, oh, ow)."""

import numpy as np

from ...nets import Layer
from ..engine.base import Buffers, Op
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, y: np.ndarray, n: int, rows: int, columns: int, stride: int) -> None:
    """Write to y the mean of x over each window of rows x columns, for the first n samples."""
    share = x.dtype.type(1 / (rows * columns))
    for sample in range(n):
        for c in range(y.shape[1]):
            for p in range(y.shape[2]):
                for q in range(y.shape[3]):
                    total = x[sample, c, p * stride, q * stride] * 0
                    for i in range(rows):
                        for j in range(columns):
                            total += x[sample, c, p * stride + i, q * stride + j]
                    y[sample, c, p, q] = total * share


@compiled
def backward(dy: np.ndarray, dx: np.ndarray, n: int, rows: int, columns: int, stride: int) -> None:
    """Write the gradient dx, shaped as x: dy of each window, shared equally by its pixels, and 0 elsewhere."""
    share = dy.dtype.type(1 / (rows * columns))
    dx[:n] = 0.0
    for sample in range(n):
        for c in range(dy.shape[1]):
            for p in range(dy.shape[2]):
                for q in range(dy.shape[3]):
                    part = dy[sample, c, p, q] * share
                    for i in range(rows):
                        for j in range(columns):
                            dx[sample, c, p * stride + i, q * stride + j] += part


class LoopsAvgPool2d(Op):
    """Average pooling in compiled loops."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.window: tuple[int, int, int] = self.layer.window(buffers.x.shape[1:])

    def forward(self, n: int) -> None:
        forward(self.buffers.x, self.buffers.y, n, *self.window)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            backward(t.dy, t.dx, n, *self.window)
