"""Kernel matrix between all training samples, in blocks of classes, each pair of classes once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .kernel import Rbf, Report


class Gram:
    """Symmetric kernel matrix (samples, samples) float32 as blocks: rows of class i by columns of class j, for i <= j.

    Samples are sorted by class. 50,000 samples of ten equal classes take 5.5 GB; the whole matrix would take 10 GB in
    float32 and 20 GB in float64. counts : number of samples of each class.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        ends = np.cumsum(counts).tolist()
        self.ranges = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
        self.blocks: dict[tuple[int, int], np.ndarray] = {}

    @property
    def classes(self) -> int:
        """Number of classes of the training samples."""
        return len(self.ranges)

    def count(self, i: int) -> int:
        """Number of samples of class i."""
        return self.ranges[i].stop - self.ranges[i].start

    def compute(self, rbf: Rbf, report: Report) -> None:
        """Compute all blocks; report : called after each product with the number of finished products and of all."""
        jobs = []
        for i in range(self.classes):
            for j in range(i, self.classes):
                block = self.blocks[i, j] = np.empty((self.count(i), self.count(j)), np.float32)
                jobs += rbf.among(self.ranges[i], self.ranges[j], block)
        rbf.run(jobs, report)
        for i in range(self.classes):
            np.fill_diagonal(self.blocks[i, i], 1)  # rounding would leave it a little below 1

    def block(self, i: int, j: int) -> np.ndarray:
        """Block (samples of i, samples of j) float32; a view."""
        return self.blocks[i, j] if i <= j else self.blocks[j, i].T

    def pair(self, i: int, j: int, space: np.ndarray) -> np.ndarray:
        """Kernel matrix (both, both) float64 of the samples of classes i and j, i's first, in the flat array `space`,
        which may be longer.
        """
        first, both = self.count(i), self.count(i) + self.count(j)
        out = space[: both * both].reshape(both, both)
        out[:first, :first], out[:first, first:], out[first:, first:] = (
            self.block(i, i),
            self.block(i, j),
            self.block(j, j),
        )
        cross, tile = self.block(i, j), 256
        for start in range(0, first, tile):  # a transposed copy stays in the cache tile by tile
            end = min(start + tile, first)
            for other in range(0, both - first, tile):
                out[first + other : first + other + tile, start:end] = cross[start:end, other : other + tile].T
        return out
