"""Errors of gradients in a net that normalises, counted by drawn roundings.

A bound of a coarse format is little more than the roundings of a few products. A normalisation subtracts a channel's
mean, and on the way back two parts of the gradient: what is left is smaller than its terms were, and their errors stay.
So the reference computes a batch's gradients several times with the format's roundings, each time on other grids, so
that equal numbers have equal errors. SIGMAS times the root mean square of these errors is what a program may be off by,
as in every bound; a batch at which the root mean square itself is beyond the bound is not used.

In fp32 and fp64 the two means themselves are what counts: their roundings are common to a channel's samples, and do not
average out over a batch. A normalisation's weight only scales what a later one normalises, so that its gradient nearly
vanishes, while these errors stay. There the reference adds the terms of the means one by one. Of thousands of pixels
such a sum is less exact than any bound, and still as exact as a product in tf32: where no start has smaller errors, a
batch is used if three digits of the gradient are left.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...config import TrainConfig
from ...machine.precision import Precision
from ...nets import Conv2d, Layer, Linear, Net
from ...nets.params import param_slices, views
from ...ops.batchnorm import reference as batchnorm
from ...ops.loss import reference as losses
from ...trainers.base import State
from ..bounds import update_bounds
from ..reference import ReferenceTrainer
from ..reference_cases import ReferenceStep
from ..tolerance import SIGMAS, rounded
from ..verdict import distance
from ..witness import Batch

DRAWS = 6  # of grids
FIT = 2.0**13  # roundoffs of a gradient that may be counted beyond its bound: three digits of float32 are left


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


class OneByOne(ReferenceTrainer):
    """Reference whose normalisations add the terms of a gradient's means one by one, with a rounding after each."""

    given: tuple = ()

    def __init__(self, net: Net, state: State, precision: Precision, rng: np.random.Generator) -> None:
        super().__init__(net, TrainConfig(), state)
        self.roundoff, self.rng = precision.roundoff, rng

    def _factors(self, layer: Layer, *given: np.ndarray | None) -> tuple:
        self.given = given
        return given

    def _results(self, layer: Layer, *given: np.ndarray) -> tuple:
        if not layer.normalizes or len(given) != 3:
            return given
        x, w, dy = self.given
        over, mean, var = batchnorm.axes(x), x.mean(batchnorm.axes(x)), x.var(batchnorm.axes(x))
        z = batchnorm.normalised(layer, x, mean, var)  # type: ignore[arg-type]
        off = self._off(dy, over) + z * self._off(dy * z, over)
        factor = w / np.sqrt(var + layer.eps)  # type: ignore[attr-defined]
        return given[0] + off * batchnorm.across(factor, x), *given[1:]

    def _off(self, terms: np.ndarray, over: tuple[int, ...]) -> np.ndarray:
        """Error of each channel's mean of terms (n, channels, ...): partial sums grow as their mean and as the root of
        their number.
        """
        count = terms.size // terms.shape[1]
        size = self.roundoff * np.sqrt(np.square(terms).mean(over) / 6 + count * np.square(terms.mean(over)) / 9)
        return np.asarray(batchnorm.across(self.rng.choice((-1.0, 1.0), len(size)) * size, terms))


def counts_errors(net: Net, precision: Precision) -> bool:
    """True if a normalisation's errors have to be counted: in a coarse format, or of one before another one."""
    return net.normalizes and (precision.coarse or sum(layer.normalizes for layer in net.layers) > 1)


def with_format_errors(
    net: Net, step: ReferenceStep, batch: Batch, precision: Precision, rng: np.random.Generator, is_strict: bool
) -> tuple[ReferenceStep, str]:  # fmt: skip
    """Step with the format's errors as additional tolerance of its gradient, and the reason why they are too large to
    judge a trainer by, or "".

    is_strict : True if errors beyond the bounds are too large; else those that leave fewer than three digits.
    """
    x, y, _, places, weights = batch
    shares = losses.shares(net.loss, y, step.size, weights)
    least = 0.0 if is_strict else FIT * precision.roundoff
    squares = np.zeros(net.param_count)
    known = np.zeros(net.param_count) if step.uncertainty is None else step.uncertainty
    limits = update_bounds(net, step.size, precision)
    scales = {name: np.abs(g) for name, g in views(net, step.gradient).items()}
    for name, unsure in views(net, known).items():
        scales[name] += unsure / limits[name]
    rng = rng if precision.coarse else np.random.default_rng(0)  # others stay as they are drawn
    for _ in range(DRAWS):
        program = (Jittered if precision.coarse else OneByOne)(net, step.state, precision, rng)
        found = program.gradients(x, y, places=places, shares=shares)[2]
        squares += np.square(found - step.gradient) / DRAWS
        errors = np.sqrt(_shared(net, squares))
        if reason := _too_large(views(net, errors), scales, limits, least):
            return step, reason
    more = np.zeros(net.param_count)
    at = views(net, more)
    for name, off in views(net, errors).items():
        at[name][...] = np.maximum(0, SIGMAS * off - limits[name] * scales[name])
    return replace(step, uncertainty=known + more), ""


def _shared(net: Net, squares: np.ndarray) -> np.ndarray:
    """Squares of errors (param_count,), each averaged with its tensor's mean: few draws of one number are uncertain."""
    out = squares / 2
    for place in param_slices(net):
        out[place.start : place.stop] += np.mean(squares[place.start : place.stop]) / 2
    return out


def _too_large(
    errors: dict[str, np.ndarray], scales: dict[str, np.ndarray], limits: dict[str, float], least: float
) -> str:
    """Sentence on the first tensor whose errors are beyond its bound and `least`; "" if none's are."""
    for name, limit in limits.items():
        error = distance(errors[name], np.zeros(errors[name].shape), scales[name])
        if not error <= max(limit, least):
            return f"roundings change the gradient of {name} by {error:.1e}, the bound is {limit:.1e}"
    return ""
