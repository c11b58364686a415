"""Feeds of the layerwise trainer: copies of a step's samples into the buffers of the first layer and the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..config import TrainConfig
from ..data.order import Order
from ..ops.engine.base import Array, GatherOp, module_of

if TYPE_CHECKING:
    from ..data.dataset import Dataset


class ArrayFeed:
    """Feed from a data set in the memory of the host or the GPU; it gathers and scales a step's rows into x.

    x : (capacity, *in_shape) float32, which `slices` writes.
    target, goals : (capacity, ...) array that `slices` writes, and its source rows (samples, ...); or None.
    """

    def __init__(
        self, dataset: Dataset, config: TrainConfig, gather: type[GatherOp], x: Array, target: Array | None,
        goals: np.ndarray | None,
    ) -> None:  # fmt: skip
        self.samples = len(dataset.train_x)
        self.batch = config.batch(self.samples)
        self.xp = module_of(x)
        self.gather = gather(self.xp.asarray(dataset.train_x), dataset.scale, x)
        self.goals = None if goals is None else self.xp.asarray(goals)
        self.target = target
        self.bytes = dataset.train_x.nbytes + (0 if goals is None else goals.nbytes)

    def begin(self, order: Order, first: int, last: int) -> None:
        """Compute the indices of the samples in steps first..last-1."""
        self.first = first
        self.indices = self.xp.asarray(order.indices(first * self.batch, min(last * self.batch, self.samples)))

    def size(self, step: int) -> int:
        """Number of samples of a step."""
        return min(self.batch, self.samples - step * self.batch)

    def slices(self, step: int) -> Iterator[int]:
        """Copy a step's samples into the buffers, as many at a time as fit; yields the number of samples copied."""
        start = (step - self.first) * self.batch
        indices = self.indices[start : start + self.batch]
        capacity = len(self.gather.x)
        for first in range(0, len(indices), capacity):
            some = indices[first : first + capacity]
            self.gather.rows(some)
            if self.target is not None and self.goals is not None:
                self.target[: len(some)] = self.goals[some]
            yield len(some)
