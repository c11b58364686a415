"""Shares of samples in the mean of their batch, from weights of samples and of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..config import TrainConfig
from ..nets import CrossEntropyLoss, Loss, Net
from ..ops.loss import reference
from .base import goals

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..data.order import Order


def has_shares(loss: Loss, dataset: Dataset) -> bool:
    """True if a mean over a batch is weighted by samples or by classes."""
    return dataset.train_weight is not None or (isinstance(loss, CrossEntropyLoss) and loss.weight is not None)


class BatchShares:
    """Shares of a training set's samples: a sample's weight over the sum of its batch's factors.

    A batch whose factors sum to 0 has shares of 0.
    """

    def __init__(self, loss: Loss, dataset: Dataset, config: TrainConfig) -> None:
        n = len(dataset.train_x)
        self.batch = config.batch(n)
        self.own = np.ones(n) if dataset.train_weight is None else dataset.train_weight.astype(np.float64)
        self.factors = reference.factors(loss, dataset.train_y, n, dataset.train_weight)

    @classmethod
    def of(cls, loss: Loss, dataset: Dataset, config: TrainConfig) -> BatchShares | None:
        """Shares for a loss and a training set; None if every share is 1 / batch size."""
        return cls(loss, dataset, config) if has_shares(loss, dataset) else None

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Shares (count,) float64 of samples `indices` (count,) of the set, which begin with a batch's first one."""
        if not len(indices):
            return np.zeros(0)
        totals = np.add.reduceat(self.factors[indices], np.arange(0, len(indices), self.batch))
        inverse = np.divide(1.0, totals, out=np.zeros(len(totals)), where=totals > 0)
        return self.own[indices] * np.repeat(inverse, self.batch)[: len(indices)]

    def steps(self, order: Order, first: int, last: int) -> np.ndarray:
        """Shares (count,) float64 of the samples of steps first..last-1 of an epoch, in their order."""
        return self.at(order.indices(first * self.batch, min(last * self.batch, order.n)))


def goals_with_weights(net: Net, dataset: Dataset) -> np.ndarray | None:
    """Goals of a training set for programs that gather them with its samples, as `goals`; with weights of samples,
    (samples, columns) float32: the label or targets, then the weight.
    """
    goal = goals(net, dataset.train_y)
    if dataset.train_weight is None:
        return goal
    columns = [] if goal is None else [goal.reshape(len(goal), -1)]
    return np.column_stack([*columns, dataset.train_weight]).astype(np.float32)
