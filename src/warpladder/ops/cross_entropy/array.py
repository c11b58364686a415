"""Softmax cross-entropy as array expressions."""

from __future__ import annotations

import numpy as np

from ..base import Array, LossOp, module_of


class ArrayCrossEntropy(LossOp):
    """loss = mean over the batch of log(sum(exp(x))) - x[label]; dx = (softmax(x) - one-hot(label)) / n.

    x is (n, classes). The row's maximum is subtracted first, so that exp cannot overflow.
    """

    def __init__(self, x: Array, target: Array, dx: Array) -> None:
        super().__init__(x, target, dx)
        capacity, classes = x.shape
        self.row = module_of(x).arange(0, capacity * classes, classes, dtype=np.int64)  # where each row starts in the flat array
        self.workspace += self.row.nbytes
        self.at_label = self.scratch(x, (capacity,), np.int64)
        self.best = self.scratch(x, (capacity,), np.int64)
        self.column = self.scratch(x, (capacity, 1))
        self.total = self.scratch(x, (capacity, 1))
        self.label_logit = self.scratch(x, (capacity,))

    def forward(self, n: int) -> None:
        xp, x, e, column, total = module_of(self.x), self.x[:n], self.dx[:n], self.column[:n], self.total[:n]
        at_label, label_logit, best = self.at_label[:n], self.label_logit[:n], self.best[:n]
        xp.add(self.row[:n], self.target[:n], out=at_label)
        xp.argmax(x, axis=1, out=best)
        self.correct[0] = xp.count_nonzero(best == self.target[:n])
        xp.max(x, axis=1, keepdims=True, out=column)
        xp.subtract(x, column, out=e)
        xp.take(e.reshape(-1), at_label, out=label_logit)
        xp.exp(e, out=e)
        xp.sum(e, axis=1, keepdims=True, out=total)
        xp.log(total, out=column)
        column[:, 0] -= label_logit
        self.loss[0] = xp.mean(column, dtype=np.float64)

    def backward(self, n: int) -> None:
        dx, total = self.dx[:n], self.total[:n]
        total *= np.float32(n)
        dx /= total
        dx.reshape(-1)[self.at_label[:n]] -= np.float32(1 / n)
