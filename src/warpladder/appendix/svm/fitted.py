"""A fitted machine: one against one, decisions and votes as libsvm has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

#: Training samples whose decisions a thread computes at a time, and test samples whose decisions all threads compute at
#: a time.
OWN, TESTS = 512, 2048


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """Pairs of classes (i, j), i < j, in the order of `SVC.decision_function` with decision_function_shape="ovo"."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


@dataclass(frozen=True)
class Fitted:
    """Coefficients of all pairs of classes.

    ranges : of each class's training samples. intercepts : (pairs,) float64.
    coefficients : for each class i (samples of i, classes - 1) float64: of its samples in its pairs, in the order of
    the other classes; 0 if a sample is no support vector.
    """

    ranges: list[slice]
    coefficients: list[np.ndarray]
    intercepts: np.ndarray

    @property
    def support_vectors(self) -> int:
        """Training samples that at least one pair needs."""
        return sum(int(np.any(each, axis=1).sum()) for each in self.coefficients)

    def add(self, decisions: np.ndarray, kernel: np.ndarray, i: int) -> None:
        """Add class i's terms to decisions (rows, pairs) float64; kernel : (rows, samples of i)."""
        others = [j for j in range(len(self.ranges)) if j != i]
        numbers = {pair: number for number, pair in enumerate(pairs_of(len(self.ranges)))}
        columns = [numbers[min(i, j), max(i, j)] for j in others]
        decisions[:, columns] += kernel.astype(np.float64) @ self.coefficients[i]

    def votes(self, decisions: np.ndarray) -> np.ndarray:
        """(rows,) class with most votes, of equal ones the first; (i, j) votes for i if its decision is above 0."""
        counts = np.zeros((len(decisions), len(self.ranges)), np.int64)
        for number, (i, j) in enumerate(pairs_of(len(self.ranges))):
            first = decisions[:, number] > 0
            counts[:, i] += first
            counts[:, j] += ~first
        return counts.argmax(axis=1)


def slices(samples: int, rows: int) -> Iterator[slice]:
    """Ranges of so many rows, the last one smaller."""
    return (slice(first, min(first + rows, samples)) for first in range(0, samples, rows))
