"""ReLU as a compiled loop over all numbers of a batch."""

import numpy as np

from ..engine.base import Op
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, y: np.ndarray, count: int) -> None:
    """Write y = max(x, 0), for the first `count` numbers of the flat arrays."""
    for i in range(count):
        y[i] = 0.0 if x[i] < 0.0 else x[i]  # so that NaN stays NaN


@compiled
def backward(y: np.ndarray, dy: np.ndarray, dx: np.ndarray, count: int) -> None:
    """Write dx = dy where y > 0, else 0, for the first `count` numbers of the flat arrays."""
    for i in range(count):
        dx[i] = dy[i] if y[i] > 0.0 else 0.0


class LoopsReLU(Op):
    """ReLU in compiled loops: y = max(x, 0); dx = dy where y > 0, else 0. y may be x, and dx may be dy."""

    def forward(self, n: int) -> None:
        t = self.buffers
        forward(t.x.reshape(-1), t.y.reshape(-1), t.x[:n].size)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            backward(t.y.reshape(-1), t.dy.reshape(-1), t.dx.reshape(-1), t.y[:n].size)
