"""Fitted support vector machine: one against one, with libsvm's decisions and votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

#: Training samples in a thread's batch of decisions, and test samples in a batch of all threads.
OWN, TESTS = 512, 2048


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """Pairs of classes (i, j), i < j, in the order of `SVC.decision_function` with decision_function_shape="ovo"."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


@dataclass(frozen=True)
class Fitted:
    """Coefficients of a fitted machine, for all pairs of classes.

    ranges : range of each class's training samples. intercepts : (pairs,) float64.
    coefficients : for each class i (samples of i, classes - 1) float64, in its pairs with the other classes in order; 0
    if a sample is no support vector.
    """

    ranges: list[slice]
    coefficients: list[np.ndarray]
    intercepts: np.ndarray

    @property
    def support_vectors(self) -> int:
        """Number of training samples that are support vectors of at least one pair."""
        return sum(int(np.any(each, axis=1).sum()) for each in self.coefficients)

    def add(self, decisions: np.ndarray, kernel: np.ndarray, i: int) -> None:
        """Add the terms of class i to decisions (rows, pairs) float64; kernel : (rows, samples of i)."""
        others = [j for j in range(len(self.ranges)) if j != i]
        numbers = {pair: number for number, pair in enumerate(pairs_of(len(self.ranges)))}
        columns = [numbers[min(i, j), max(i, j)] for j in others]
        decisions[:, columns] += kernel.astype(np.float64) @ self.coefficients[i]

    def votes(self, decisions: np.ndarray) -> np.ndarray:
        """Class (rows,) with most votes, the first of equal ones; the pair (i, j) votes for i if its decision is
        above 0.
        """
        counts = np.zeros((len(decisions), len(self.ranges)), np.int64)
        for number, (i, j) in enumerate(pairs_of(len(self.ranges))):
            first = decisions[:, number] > 0
            counts[:, i] += first
            counts[:, j] += ~first
        return counts.argmax(axis=1)


def slices(samples: int, rows: int) -> Iterator[slice]:
    """Ranges of `rows` rows each, the last one smaller."""
    return (slice(first, min(first + rows, samples)) for first in range(0, samples, rows))
