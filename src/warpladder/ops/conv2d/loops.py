"""Convolution as nested loops, with sums in float64. Shapes: x (n, c, h, w), weight (o, c, k, k), y (n, o, oh, ow).

Output (p, q) and kernel element (i, j) multiply input pixel (p s + i - padding, q s + j - padding); pixels outside are
skipped.
"""

import numpy as np

from ...nets import Conv2d, Layer
from ..engine.base import Buffers, Op
from ..jit.cache import compiled


@compiled
def forward(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, y: np.ndarray, n: int, stride: int, padding: int
) -> None:
    """Write to y the convolution of x with weight, plus bias (o,), for the first n samples."""
    outputs, channels, k, _ = weight.shape
    for sample in range(n):
        for o in range(outputs):
            for p in range(y.shape[2]):
                for q in range(y.shape[3]):
                    total = 0.0
                    for c in range(channels):
                        for i in range(k):
                            row = p * stride + i - padding
                            if 0 <= row < x.shape[2]:
                                for j in range(k):
                                    column = q * stride + j - padding
                                    if 0 <= column < x.shape[3]:
                                        total += x[sample, c, row, column] * weight[o, c, i, j]
                    y[sample, o, p, q] = total + bias[o]


@compiled
def backward_weights(
    x: np.ndarray, dy: np.ndarray, dweight: np.ndarray, dbias: np.ndarray, n: int, stride: int, padding: int
) -> None:
    """Write dweight (o, c, k, k): sums of dy times x under the window, over samples and pixels; dbias (o,): of dy."""
    outputs, channels, k, _ = dweight.shape
    for o in range(outputs):
        total = 0.0
        for sample in range(n):
            for p in range(dy.shape[2]):
                for q in range(dy.shape[3]):
                    total += dy[sample, o, p, q]
        dbias[o] = total
        for c in range(channels):
            for i in range(k):
                for j in range(k):
                    total = 0.0
                    for sample in range(n):
                        for p in range(dy.shape[2]):
                            row = p * stride + i - padding
                            if 0 <= row < x.shape[2]:
                                for q in range(dy.shape[3]):
                                    column = q * stride + j - padding
                                    if 0 <= column < x.shape[3]:
                                        total += dy[sample, o, p, q] * x[sample, c, row, column]
                    dweight[o, c, i, j] = total


@compiled
def backward_input(
    dy: np.ndarray, weight: np.ndarray, dx: np.ndarray, n: int, stride: int, padding: int, sums: np.ndarray
) -> None:
    """Write dx, shaped as x: each dy times its window of weights, added at the pixels under it.

    sums : scratch (h, w) float64.
    """
    outputs, channels, k, _ = weight.shape
    for sample in range(n):
        for c in range(channels):
            sums[:, :] = 0.0
            for o in range(outputs):
                for p in range(dy.shape[2]):
                    for q in range(dy.shape[3]):
                        for i in range(k):
                            row = p * stride + i - padding
                            if 0 <= row < sums.shape[0]:
                                for j in range(k):
                                    column = q * stride + j - padding
                                    if 0 <= column < sums.shape[1]:
                                        sums[row, column] += dy[sample, o, p, q] * weight[o, c, i, j]
            dx[sample, c] = sums


class LoopsConv2d(Op):
    """Convolution in compiled loops, a weight after the other."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        assert isinstance(layer, Conv2d)
        self.stride, self.padding = layer.stride, layer.padding
        self.sums = self.scratch(buffers.x, buffers.x.shape[2:], np.float64)

    def forward(self, n: int) -> None:
        t = self.buffers
        forward(t.x, t.w, t.b, t.y, n, self.stride, self.padding)

    def backward(self, n: int) -> None:
        t = self.buffers
        backward_weights(t.x, t.dy, t.dw, t.db, n, self.stride, self.padding)
        if t.dx is not None:
            backward_input(t.dy, t.w, t.dx, n, self.stride, self.padding, self.sums)
