"""Specimens: training steps and outputs whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..ops.sgd import reference as sgd
from ..order import Order
from ..trainers.base import State
from ..trainers.reference import ReferenceTrainer
from .sums import Sums


@dataclass(frozen=True)
class Specimen:
    """One step: where it starts, which it is, and what must come of it.

    state : State, float32.
    step, size : which step of the case's epoch, and the samples in its batch.
    loss, correct : what its log must say.
    gradient : (param_count,) float64, of the mean loss.
    """

    state: State
    step: int
    size: int
    loss: float
    correct: int
    gradient: np.ndarray

    def after(self, config: TrainConfig) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and velocity after the step with these settings, float64."""
        return sgd.step(self.state.params.astype(np.float64), self.gradient, self.state.velocity.astype(np.float64), config)

    def sizes(self, config: TrainConfig) -> tuple[np.ndarray, np.ndarray]:
        """What errors in the update and in the velocity are relative to: the same sums of their terms' sizes.

        Where gradient, momentum and decay cancel, their errors do not; nor does clipping take errors away in proportion.
        """
        params, gradient, velocity = (np.abs(a.astype(np.float64)) for a in (self.state.params, self.gradient, self.state.velocity))
        after, summed = sgd.step(params, gradient, velocity, config.but(clip_value=None))
        return params - after, summed


@dataclass(frozen=True)
class Case:
    """A data set, an order of its samples, and specimens among the steps of that epoch.

    updates : whether the parameters and the momentum after a step are judged, or what the step logs alone.
    """

    name: str
    dataset: Dataset
    order: Order
    specimens: tuple[Specimen, ...]
    updates: bool = True


@dataclass(frozen=True)
class Pool:
    """Samples as they are stored, their scale, and `truth`, the net's outputs for them, float64."""

    x: np.ndarray
    scale: float
    truth: np.ndarray


def truth(
    reference: ReferenceTrainer, x: np.ndarray, y: np.ndarray, counts: np.ndarray, sums: Sums | None = None
) -> tuple[float, int, np.ndarray]:
    """Mean loss, correct samples and gradient of a batch in which sample i of x (n, *in_shape) float64 occurs counts[i] times.

    sums : is told the gradient's terms.
    """
    loss, correct, gradient = 0.0, 0, np.zeros(reference.net.param_count)
    for times in np.unique(counts):
        some = counts == times
        watch = None if sums is None else partial(sums.expect, some)
        its_loss, its_correct, its_gradient = reference.gradients(x[some], y[some], watch)
        share = times * np.count_nonzero(some) / counts.sum()
        loss += float(share * its_loss)
        correct += int(times) * its_correct
        gradient += share * its_gradient
    return loss, correct, gradient
