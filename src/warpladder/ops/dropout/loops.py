"""Dropout as a compiled loop over all numbers of a batch."""

import numpy as np

from ...nets import Layer
from ..engine.base import Buffers, Op
from ..jit.cache import compiled
from . import scalar

_mixed = compiled(scalar.mixed)


@compiled(error_model="numpy")
def times_mask(key: int, position: int, threshold: int, scale: float, a: np.ndarray, out: np.ndarray, n: int) -> None:
    """Write out = a m for the first n samples of a; a and out are (capacity, size)."""
    for sample in range(n):
        of_sample = _mixed(key ^ (position + sample))
        for element in range(a.shape[1]):
            kept = _mixed(of_sample ^ element) >= threshold
            out[sample, element] = a[sample, element] * (scale if kept else a.dtype.type(0))


class LoopsDropout(Op):
    """Dropout y = x m, dx = dy m; both passes compute the mask m. dx may be dy."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.scale = buffers.x.dtype.type(self.layer.scale)
        self.key = self.position = 0

    def begin(self, key: int, position: int) -> None:
        self.key, self.position = key, position

    def forward(self, n: int) -> None:
        self._masked(self.buffers.x, self.buffers.y, n)

    def predict(self, n: int) -> None:
        self.buffers.y[:n] = self.buffers.x[:n]

    def backward(self, n: int) -> None:
        if self.buffers.dx is not None:
            self._masked(self.buffers.dy, self.buffers.dx, n)

    def _masked(self, a: np.ndarray, out: np.ndarray, n: int) -> None:
        rows, results = (each.reshape(len(each), -1) for each in (a, out))
        times_mask(self.key, self.position, self.layer.threshold, self.scale, rows, results, n)
