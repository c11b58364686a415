"""Nearest-neighbour upsampling as nested compiled loops. Shapes: x (n, c, h, w), y (n, c, s h, s w)."""

import numpy as np

from ...nets import Layer, Upsample2d
from ..engine.base import Buffers, Op
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, y: np.ndarray, n: int, s: int) -> None:
    """Write y: each pixel of x as s x s equal pixels, for the first n samples."""
    for sample in range(n):
        for c in range(y.shape[1]):
            for p in range(y.shape[2]):
                for q in range(y.shape[3]):
                    y[sample, c, p, q] = x[sample, c, p // s, q // s]


@compiled
def backward(dy: np.ndarray, dx: np.ndarray, n: int, s: int) -> None:
    """Write dx, shaped as x: the sum of dy over the s x s pixels that are copies of each pixel."""
    for sample in range(n):
        for c in range(dx.shape[1]):
            for p in range(dx.shape[2]):
                for q in range(dx.shape[3]):
                    total = 0.0
                    for i in range(s):
                        for j in range(s):
                            total += dy[sample, c, p * s + i, q * s + j]
                    dx[sample, c, p, q] = total


class LoopsUpsample2d(Op):
    """Nearest-neighbour upsampling in compiled loops."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        assert isinstance(layer, Upsample2d)
        self.s = layer.scale_factor

    def forward(self, n: int) -> None:
        forward(self.buffers.x, self.buffers.y, n, self.s)

    def backward(self, n: int) -> None:
        if self.buffers.dx is not None:
            backward(self.buffers.dy, self.buffers.dx, n, self.s)
