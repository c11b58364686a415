"""Residual connections as compiled loops over all numbers of a batch."""

import numpy as np

from ...nets import Branch, Shortcut, Sum
from ..engine.base import Op
from ..jit.cache import compiled


@compiled
def add(a: np.ndarray, b: np.ndarray, out: np.ndarray, n: int) -> None:
    """Write out = a + b for the first n samples; a, b and out are (capacity, size)."""
    for sample in range(n):
        for i in range(a.shape[1]):
            out[sample, i] = a[sample, i] + b[sample, i]


@compiled
def copy(a: np.ndarray, out: np.ndarray, n: int) -> None:
    """Write out = a for the first n samples; a and out are (capacity, size)."""
    for sample in range(n):
        for i in range(a.shape[1]):
            out[sample, i] = a[sample, i]


def _rows(a: np.ndarray) -> np.ndarray:
    return a.reshape(len(a), -1)


class LoopsResidual(Op):
    """Residual layer: a `Branch` copies x and adds both gradients, a `Shortcut` copies `skip`, a `Sum` adds both."""

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
