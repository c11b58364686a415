"""Softmax cross-entropy as array expressions of NumPy or CuPy."""

import numpy as np

from ..engine.base import Array, LossOp, module_of


class ArrayCrossEntropy(LossOp):
    """Softmax cross-entropy: loss = mean over the batch of log(sum(exp(x))) - x[label]; dx = (softmax(x) -
    one-hot(label)) / n.

    x is (n, classes). Each row's maximum is subtracted first, so that exp cannot overflow.
    """

    def __init__(self, x: Array, target: Array, dx: Array) -> None:
        super().__init__(x, target, dx)
        capacity, classes = x.shape
        self.row = module_of(x).arange(0, capacity * classes, classes, dtype=np.int64)  # starts of rows, flat
        self.workspace += self.row.nbytes
        self.at_best, self.at_label = (self.scratch(x, (capacity,), np.int64) for _ in range(2))
        self.best, self.total, self.lost = (self.scratch(x, (capacity,)) for _ in range(3))
        self.unchecked = {"mode": "clip"} if module_of(x) is np else {}  # NumPy takes straight into `out` only so
        self.ones = self.scratch(x, (classes,))
        self.ones[...] = 1

    def forward(self, n: int, has_loss: bool = True) -> None:
        x, e, best, total, lost = self.x[:n], self.dx[:n], self.best[:n], self.total[:n], self.lost[:n]
        row, at_best, at_label = self.row[:n], self.at_best[:n], self.at_label[:n]
        xp = module_of(x)
        xp.argmax(x, axis=1, out=at_best)
        xp.add(row, at_best, out=at_best)
        xp.add(row, self.target[:n], out=at_label)
        if has_loss:
            self.correct[0] = xp.count_nonzero(at_best == at_label)
        xp.take(x.reshape(-1), at_best, out=best, **self.unchecked)
        xp.subtract(x, best[:, None], out=e)
        if has_loss:
            xp.take(e.reshape(-1), at_label, out=lost, **self.unchecked)
        xp.exp(e, out=e)
        xp.matmul(e, self.ones, out=total)  # many times faster than sum(axis=1) on long, narrow arrays
        if has_loss:
            xp.subtract(xp.log(total, out=best), lost, out=lost)
            self.loss[0] = xp.sum(lost, dtype=np.float64) / n

    def backward(self, n: int) -> None:
        dx, total = self.dx[:n], self.total[:n]
        total *= dx.dtype.type(n)
        dx /= total[:, None]
        dx.reshape(-1)[self.at_label[:n]] -= dx.dtype.type(1 / n)
