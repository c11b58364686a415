"""Gathering of rows as two nested compiled loops."""

import numpy as np

from ..engine.base import Array, GatherOp
from ..jit.cache import compiled


@compiled
def rows(source: np.ndarray, indices: np.ndarray, scale: float, x: np.ndarray) -> None:
    for i in range(len(indices)):
        for j in range(source.shape[1]):
            x[i, j] = np.float32(source[indices[i], j]) * scale


class LoopsGather(GatherOp):
    def rows(self, indices: Array) -> None:
        rows(self.source.reshape(len(self.source), -1), indices, self.scale, self.x.reshape(len(self.x), -1))
