"""Linear layer as nested compiled loops, with sums in float64. Shapes: x (n, in), w (out, in), y (n, out)."""

import numpy as np

from ...nets import Layer
from ..engine.base import Buffers, Op
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray, y: np.ndarray, n: int) -> None:
    """Write y = x w^T + b, with b (out,), for the first n samples."""
    for sample in range(n):
        for o in range(w.shape[0]):
            total = 0.0
            for i in range(w.shape[1]):
                total += x[sample, i] * w[o, i]
            y[sample, o] = total + b[o]


@compiled
def backward_weights(x: np.ndarray, dy: np.ndarray, dw: np.ndarray, db: np.ndarray, n: int, sums: np.ndarray) -> None:
    """Write dw (out, in) = dy^T x and db (out,) = sum over samples of dy; sums : scratch (in,) float64."""
    for o in range(dw.shape[0]):
        total = 0.0
        sums[:] = 0.0
        for sample in range(n):
            total += dy[sample, o]
            for i in range(dw.shape[1]):
                sums[i] += dy[sample, o] * x[sample, i]
        db[o] = total
        dw[o, :] = sums


@compiled
def backward_input(dy: np.ndarray, w: np.ndarray, dx: np.ndarray, n: int, sums: np.ndarray) -> None:
    """Write dx (n, in) = dy w; sums : scratch (in,) float64."""
    for sample in range(n):
        sums[:] = 0.0
        for o in range(w.shape[0]):
            for i in range(w.shape[1]):
                sums[i] += dy[sample, o] * w[o, i]
        dx[sample, :] = sums


class LoopsLinear(Op):
    """Linear layer in compiled loops."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.sums = self.scratch(buffers.x, (buffers.x.shape[1],), np.float64)

    def forward(self, n: int) -> None:
        t = self.buffers
        forward(t.x, t.w, t.b, t.y, n)

    def backward(self, n: int) -> None:
        t = self.buffers
        backward_weights(t.x, t.dy, t.dw, t.db, n, self.sums)
        if t.dx is not None:
            backward_input(t.dy, t.w, t.dx, n, self.sums)
