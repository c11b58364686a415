"""Softmax cross-entropy as compiled loops over samples and classes. Shapes: x, dx (n, classes), label (n,)."""

import math

import numpy as np

from ..engine.base import LossOp
from ..jit.cache import compiled


@compiled
def forward(x: np.ndarray, label: np.ndarray, n: int, loss: np.ndarray, correct: np.ndarray) -> None:
    """Mean loss over n samples of logits x into loss (1,), and the count of right ones into correct (1,)."""
    loss_sum = 0.0
    hits = 0
    for sample in range(n):
        best = 0
        for c in range(x.shape[1]):
            if x[sample, c] > x[sample, best]:
                best = c
        total = 0.0
        for c in range(x.shape[1]):
            total += math.exp(x[sample, c] - x[sample, best])
        loss_sum += math.log(total) - (x[sample, label[sample]] - x[sample, best])
        if best == label[sample]:
            hits += 1
    loss[0] = loss_sum / n
    correct[0] = hits


@compiled
def backward(x: np.ndarray, label: np.ndarray, dx: np.ndarray, n: int) -> None:
    """Write the gradient dx (n, classes) = (softmax(x) - one-hot label) / n."""
    for sample in range(n):
        best = x[sample].max()
        total = 0.0
        for c in range(x.shape[1]):
            total += math.exp(x[sample, c] - best)
        for c in range(x.shape[1]):
            probability = math.exp(x[sample, c] - best) / total
            wanted = 1.0 if c == label[sample] else 0.0
            dx[sample, c] = (probability - wanted) / n


class LoopsCrossEntropy(LossOp):
    """Softmax cross-entropy in compiled loops."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        if has_loss:
            forward(self.x, self.target, n, self.loss, self.correct)

    def backward(self, n: int) -> None:
        backward(self.x, self.target, self.dx, n)
