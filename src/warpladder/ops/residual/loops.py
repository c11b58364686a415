"""Residual connections as a loop over all numbers of a batch."""

import numpy as np

from ...nets import Branch, Shortcut, Sum
from ..engine.base import Op
from ..jit.cache import compiled


@compiled
def add(a: np.ndarray, b: np.ndarray, out: np.ndarray, n: int) -> None:
    """out = a + b. a, b, out : (capacity, size), of which n samples count."""
    for sample in range(n):
        for i in range(a.shape[1]):
            out[sample, i] = a[sample, i] + b[sample, i]


@compiled
def copy(a: np.ndarray, out: np.ndarray, n: int) -> None:
    """out = a. a, out : (capacity, size), of which n samples count."""
    for sample in range(n):
        for i in range(a.shape[1]):
            out[sample, i] = a[sample, i]


def _rows(a: np.ndarray) -> np.ndarray:
    return a.reshape(len(a), -1)


class LoopsResidual(Op):
    """A `Branch` copies x, a `Shortcut` the stored array, a `Sum` adds both. A `Branch` adds both gradients."""

    def forward(self, n: int) -> None:
        t = self.buffers
        if isinstance(self.layer, Sum):
            add(_rows(t.x), _rows(t.skip), _rows(t.y), n)
        else:
            copy(_rows(t.skip if isinstance(self.layer, Shortcut) else t.x), _rows(t.y), n)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        if isinstance(self.layer, Branch) and t.dskip is not None:
            add(_rows(t.dy), _rows(t.dskip), _rows(t.dx), n)
        else:
            copy(_rows(t.dskip if isinstance(self.layer, Shortcut) else t.dy), _rows(t.dx), n)
