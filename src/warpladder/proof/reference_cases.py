"""Specimens: training steps and outputs whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..ops.update import reference as update
from ..trainers.base import State
from .bias_sums import Sums
from .error_scale import sizes
from .reference import ReferenceTrainer, slices


@dataclass(frozen=True)
class Specimen:
    """One step: where it starts, which it is, and what must come of it.

    state : State, as the trainer keeps it; its step is not that of the case's epoch, but counts updates as a run does.
    step, size : which step of the case's epoch, and the samples in its batch.
    samples : of the case's data set, by which a schedule knows the epoch's length.
    loss, correct : what its log must say.
    gradient : (param_count,) float64, of the mean loss.
    """

    state: State
    step: int
    size: int
    samples: int
    loss: float
    correct: int
    gradient: np.ndarray

    def after(
        self, config: TrainConfig, gradient: np.ndarray | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Parameters and slots after the step with these settings, float64; with another gradient where one is given."""
        return update.step(
            self.params,
            self.gradient if gradient is None else gradient,
            self._slots(config),
            config,
            self.rate(config),
            self.state.step + 1,
        )

    def sizes(self, config: TrainConfig) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """What errors in the update and in each slot are relative to."""
        return sizes(config, self.params, self.gradient, self._slots(config), self.rate(config), self.state.step + 1)

    def rate(self, config: TrainConfig) -> float:
        """The learning rate of the step."""
        return float(config.rates(self.state.step, self.state.step + 1, self.samples)[0])

    @property
    def params(self) -> np.ndarray:
        """(param_count,) float64, before the step."""
        return self.state.params.astype(np.float64)

    def _slots(self, config: TrainConfig) -> dict[str, np.ndarray]:
        return {name: self.state.slot(name).astype(np.float64) for name in config.optimizer.slots}


@dataclass(frozen=True)
class Case:
    """A data set, an order of its samples, and specimens among the steps of that epoch.

    updates : whether the parameters and the slots after a step are judged, or what the step logs alone.
    """

    name: str
    dataset: Dataset
    order: Order
    specimens: tuple[Specimen, ...]
    updates: bool = True

    def at(self, order: Order) -> Case:
        """The same steps in an epoch of another order: the samples are stored where that order looks for them."""
        source = np.empty(order.n, np.int64)
        source[order.indices(0, order.n)] = self.order.indices(0, order.n)
        data = self.dataset
        labels = None if data.train_y is None else np.ascontiguousarray(data.train_y[source])
        return replace(
            self, dataset=data.but(train_x=np.ascontiguousarray(data.train_x[source]), train_y=labels), order=order
        )


@dataclass(frozen=True)
class Pool:
    """Samples as they are stored, their scale, and `truth`, the net's outputs for them, float64; alone: (some,) int64,
    those fit to be predicted alone.
    """

    x: np.ndarray
    scale: float
    truth: np.ndarray
    alone: np.ndarray


def truth(
    reference: ReferenceTrainer, x: np.ndarray, y: np.ndarray, counts: np.ndarray, sums: Sums | None = None
) -> tuple[float, int, np.ndarray]:
    """Mean loss, correct samples and gradient of a batch in which sample i of x (n, *in_shape) float64 occurs counts[i]
    times.

    sums : is told the gradient's terms.
    """
    loss, correct, gradient = 0.0, 0, np.zeros(reference.net.param_count)
    for times in np.unique(counts):
        alike = np.flatnonzero(counts == times)
        share = times * len(alike) / counts.sum()
        for part in slices(reference.net, len(alike)):
            some = alike[part]
            watch = None if sums is None else partial(sums.expect, some, len(alike))
            its_loss, its_correct, its_gradient = reference.gradients(x[some], y[some], watch, len(alike))
            loss += float(share * its_loss)
            correct += int(times) * its_correct
            gradient += share * its_gradient
    return loss, correct, gradient
