"""Mean squared error as a compiled loop over all numbers of a batch."""

import numpy as np

from ..engine.base import LossOp
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, target: np.ndarray, count: int) -> float:
    """Mean of (x - target)^2 over the first `count` numbers; x and target are flat."""
    total = 0.0
    for i in range(count):
        difference = x[i] - target[i]
        total += difference * difference
    return total / count


@compiled
def backward(x: np.ndarray, target: np.ndarray, dx: np.ndarray, count: int) -> None:
    """Write the gradient dx = 2 (x - target) / count of the first `count` numbers; all arrays are flat."""
    for i in range(count):
        dx[i] = 2.0 * (x[i] - target[i]) / count


class LoopsMSE(LossOp):
    """Mean squared error in compiled loops."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        if has_loss:
            self.loss[0] = forward(self.x.reshape(-1), self.target.reshape(-1), self.x[:n].size)
            self.correct[0] = 0

    def backward(self, n: int) -> None:
        backward(self.x.reshape(-1), self.target.reshape(-1), self.dx.reshape(-1), self.x[:n].size)
