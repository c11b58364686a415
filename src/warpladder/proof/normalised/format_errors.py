"""Errors of a coarse format's gradients in a net that normalises, counted by drawn roundings.

A bound of a coarse format is little more than the roundings of a few products. A normalisation subtracts a channel's
mean, and on the way back two parts of the gradient: what is left is smaller than its terms were, and their errors stay.
So the reference computes a batch's gradients several times with the format's roundings, each time on other grids, so
that equal numbers have equal errors. SIGMAS times the root mean square of these errors is what a program may be off by,
as in every bound; a batch at which the root mean square itself is beyond the bound is not used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...config import TrainConfig
from ...machine.precision import Precision
from ...nets import Conv2d, Layer, Linear, Net
from ...nets.params import views
from ...trainers.base import State
from ..bounds import update_bounds
from ..places import Places
from ..reference import ReferenceTrainer
from ..reference_cases import ReferenceStep
from ..tolerance import SIGMAS, rounded
from ..verdict import distance

DRAWS = 6  # of grids


class Jittered(ReferenceTrainer):
    """Reference that rounds as the format does, but with another grid for each array: times a drawn number."""

    def __init__(self, net: Net, state: State, precision: Precision, rng: np.random.Generator) -> None:
        super().__init__(net, TrainConfig(), state, precision.name)
        self.rng = rng

    def _factors(self, layer: Layer, *given: np.ndarray | None) -> tuple:
        if not isinstance(layer, Linear | Conv2d):
            return given
        return tuple(None if a is None else self._rounded(a, float(self.rng.uniform(1, 2))) for a in given)

    def _rounded(self, a: np.ndarray, times: float) -> np.ndarray:
        return np.asarray(rounded(a * times, self.precision) / times)


def with_format_errors(
    net: Net, step: ReferenceStep, x: np.ndarray, y: np.ndarray | None, precision: Precision,
    rng: np.random.Generator, places: Places | None, shares: np.ndarray,
) -> tuple[ReferenceStep, str]:  # fmt: skip
    """Step with the format's errors as additional tolerance of its gradient, and the reason why they are too large to
    judge a trainer by, or "".

    x, y : the batch, (n, *in_shape) float64 and labels or targets. shares : (n,) of the samples in the loss.
    """
    squares = np.zeros(net.param_count)
    known = np.zeros(net.param_count) if step.uncertainty is None else step.uncertainty
    limits = update_bounds(net, step.size, precision)
    scales = {name: np.abs(g) for name, g in views(net, step.gradient).items()}
    for name, unsure in views(net, known).items():
        scales[name] += unsure / limits[name]
    for _ in range(DRAWS):
        found = Jittered(net, step.state, precision, rng).gradients(x, y, places=places, shares=shares)[2]
        squares += np.square(found - step.gradient) / DRAWS
        errors = np.sqrt(squares)
        if reason := _too_large(views(net, errors), scales, limits):
            return step, reason
    more = np.zeros(net.param_count)
    at = views(net, more)
    for name, off in views(net, errors).items():
        at[name][...] = np.maximum(0, SIGMAS * off - limits[name] * scales[name])
    return replace(step, uncertainty=known + more), ""


def _too_large(errors: dict[str, np.ndarray], scales: dict[str, np.ndarray], limits: dict[str, float]) -> str:
    """Sentence on the first tensor whose errors are beyond its bound; "" if none's are."""
    for name, limit in limits.items():
        error = distance(errors[name], np.zeros(errors[name].shape), scales[name])
        if not error <= limit:
            return f"roundings change the gradient of {name} by {error:.1e}, the bound is {limit:.1e}"
    return ""
