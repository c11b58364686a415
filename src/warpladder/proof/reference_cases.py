"""Reference cases: training steps and outputs whose true results are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..nets import Net
from ..nets.params import param_slices
from ..ops.loss import reference as losses
from ..ops.update import reference as update
from ..trainers.base import State
from .bias_sums import BiasSums
from .bounds import error_scales
from .places import Places
from .reference import ReferenceTrainer, slices


@dataclass(frozen=True)
class ReferenceStep:
    """Training step with its start and its true results.

    state : state before the step, as the trainer stores it; its number of updates is the run's, not the epoch's.
    step, size : number of the step in the case's epoch, and samples in its batch.
    samples : samples of the case's data set, from which a schedule takes the epoch's length.
    loss, correct : true loss and correct samples of the batch.
    gradient : (param_count,) float64, gradient of the mean loss.
    uncertainty, loss_uncertainty : additional tolerance of the gradient, (param_count,) float64 or None, and of the
        loss, because the loss loses digits.
    largest_loss : largest loss of a sample, or 0 if it is ordinary.
    product_errors : root-mean-square errors of the gradient, (param_count,) float64, where a weight's products with all
        pixels are added one by one; None for a net that does not normalise.
    partial : True if a normalisation's sums are taken to have several accumulators, since a program with one has errors
        like those of faults.
    buffers, buffer_scales : true running statistics after the step, and the scales of their errors, (buffer_count,)
        float64; None for a net without them.
    """

    state: State
    step: int
    size: int
    samples: int
    loss: float
    correct: int
    gradient: np.ndarray
    uncertainty: np.ndarray | None = None
    loss_uncertainty: float = 0.0
    largest_loss: float = 0.0
    product_errors: np.ndarray | None = None
    partial: bool = False
    buffers: np.ndarray | None = None
    buffer_scales: np.ndarray | None = None

    def after(
        self, config: TrainConfig, gradient: np.ndarray | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Parameters and slots, (param_count,) float64 each, after the step with these settings; `gradient` replaces
        the step's own.
        """
        gradient = self.gradient if gradient is None else gradient
        return update.step(
            self.params, gradient, self._slots(config), config, self.rate(config), self.state.step + 1
        )  # fmt: skip

    def error_scales(
        self, config: TrainConfig, bounds: dict[str, float] | None = None, net: Net | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Scales of errors, (param_count,) float64, in the update and in each slot, by its name; a gradient's
        uncertainty is divided by its bound.
        """
        rate, number, span = self.rate(config), self.state.step + 1, np.abs(self.gradient)
        if self.uncertainty is not None and bounds is not None and net is not None:
            for place in param_slices(net):
                here = slice(place.start, place.stop)
                span[here] += self.uncertainty[here] / bounds[place.name]
        return error_scales(config, self.params, self.gradient, self._slots(config), rate, number, span)

    def rate(self, config: TrainConfig) -> float:
        """Learning rate of the step."""
        return float(config.rates(self.state.step, self.state.step + 1, self.samples)[0])

    @property
    def params(self) -> np.ndarray:
        """Parameters (param_count,) float64 before the step."""
        return self.state.params.astype(np.float64)

    def _slots(self, config: TrainConfig) -> dict[str, np.ndarray]:
        return {name: self.state.slot(name).astype(np.float64) for name in config.optimizer.slots}


@dataclass(frozen=True)
class ReferenceCase:
    """Data set, an order of its samples, and reference steps of this epoch.

    updates : True if the parameters and slots after a step are checked, False if only its log is.
    """

    name: str
    dataset: Dataset
    order: Order
    steps: tuple[ReferenceStep, ...]
    updates: bool = True

    def after(self, made: Sequence[int]) -> ReferenceCase:
        """Case with the same steps, each after another number of updates."""
        counted = zip(made, self.steps, strict=True)
        return replace(self, steps=tuple(replace(step, state=step.state.but(step=count)) for count, step in counted))

    def at(self, order: Order) -> ReferenceCase:
        """Case with the same steps in an epoch of another order: samples are stored at this order's indices."""
        source = np.empty(order.n, np.int64)
        source[order.indices(0, order.n)] = self.order.indices(0, order.n)
        data = self.dataset
        labels = None if data.train_y is None else np.ascontiguousarray(data.train_y[source])
        weights = None if data.train_weight is None else data.train_weight[source]
        x = np.ascontiguousarray(data.train_x[source])
        moved = data.but(train_x=x, train_y=labels, train_weight=weights)
        return replace(self, dataset=moved, order=order)


def truth(
    reference: ReferenceTrainer, x: np.ndarray, y: np.ndarray, counts: np.ndarray, places: Places | None = None,
    weights: np.ndarray | None = None, sums: BiasSums | None = None,
) -> tuple[float, int, np.ndarray]:  # fmt: skip
    """Mean loss, correct samples and gradient of a batch with repeated samples.

    x : (n, *in_shape) float64; y : (n,) labels; counts : (n,) times that each sample is in the batch.
    places : places of the samples, if the net draws masks; then each is in the batch once. weights : (n,) of the
    samples.
    sums : receives the gradient's true terms.
    """
    loss, correct, gradient = 0.0, 0, np.zeros(reference.net.param_count)
    total = float(counts @ losses.factors(reference.net.loss, y, len(x), weights))
    shares = (np.ones(len(x)) if weights is None else weights.astype(np.float64)) / total
    for times in np.unique(counts):
        alike = np.flatnonzero(counts == times)
        for part in slices(reference.net, len(alike)):
            some = alike[part]
            watch = None if sums is None else partial(sums.add_truth, some)
            at = None if places is None else places[some]
            found = reference.gradients(x[some], y[some], watch, places=at, shares=shares[some])
            loss += float(times * found[0])
            correct += int(times) * found[1]
            gradient += times * found[2]
    return loss, correct, gradient
