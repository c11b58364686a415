"""Errors of gradients in a net that normalises, counted by drawn roundings.

A bound of a coarse format is little more than the roundings of a few products. A normalisation subtracts a channel's
mean, and on the way back two parts of the gradient: what is left is smaller than its terms were, and their errors stay.
So the reference computes a batch's gradients several times with the format's roundings, each time on other grids, so
that equal numbers have equal errors. SIGMAS times the root mean square of these errors is what a program may be off by,
as in every bound; a batch at which the root mean square itself is beyond the bound is not used.

In fp32 and fp64 the means themselves are what counts, two on the way forward and two on the way back: their roundings
are common to a channel's numbers, and do not average out over a batch. There the reference adds their terms one by one
(one_by_one.py). A normalisation's weight may only scale what a later one normalises, so that its gradient nearly
vanishes, while these errors stay. Of thousands of pixels such a sum is less exact than any bound, and still as exact as
a product in tf32: with each start that has no smaller errors larger ones are counted, as long as two digits of the
gradient are left.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...config import TrainConfig
from ...machine.precision import Precision
from ...nets import Conv2d, Layer, Linear, Net
from ...nets.params import param_slices, views
from ...ops.loss import reference as losses
from ...trainers.base import State
from ..bounds import loss_bound, update_bounds
from ..reference import ReferenceTrainer
from ..reference_cases import ReferenceStep
from ..tolerance import SIGMAS, rounded
from ..verdict import distance
from ..witness import Batch
from .long_sums import LONG, longest_sum
from .one_by_one import REAL, OneByOne

DRAWS = 6  # of grids
SURE = 2.0  # share by which the first of these draws must exceed a limit, that of n draws an n-th of it
SUMS = 10  # draws of orders of sums: errors that are common to a channel have few directions
SLIGHT = 1 / 8  # share of a bound below which the first REAL draws of errors are enough
LOOKS = 1, 2, REAL  # draws after which errors are looked at; and after the last
MANY = 512  # numbers of a channel of which one accumulator is less exact than the bounds
FIT = 2.0**17  # roundoffs of a gradient that may be counted beyond its bound: two digits of float32 are left


class Excess(str):
    """Reason why a batch's errors are too large to judge a trainer by.

    times : the largest of them in units of its bound; infinite if they change the number of correct samples.
    """

    times: float

    def __new__(cls, reason: str, times: float = math.inf) -> Excess:
        made = super().__new__(cls, reason)
        made.times = times
        return made


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


def counts_errors(net: Net, size: int, precision: Precision) -> bool:
    """True if a normalisation's errors have to be counted in a batch of this size: in a coarse format, of one before
    another one, or of many numbers.
    """
    norms = [i for i, layer in enumerate(net.layers) if layer.normalizes]
    most = max((size * math.prod(net.shapes[i][1:]) for i in norms), default=0)
    return bool(norms) and (precision.coarse or len(norms) > 1 or most > MANY)


def with_format_errors(
    net: Net, step: ReferenceStep, batch: Batch, precision: Precision, rng: np.random.Generator, room: float,
    accumulators: int = 1,
) -> tuple[ReferenceStep, str]:  # fmt: skip
    """Step with the format's errors as additional tolerance of its gradient, and the reason why they are too large to
    judge a trainer by, or "".

    accumulators : number of partial sums of a normalisation's means, in fp32 and fp64.
    room : times a bound that errors may be, if two digits of the gradient are left; in a coarse format none are.
    """
    x, y, _, places, weights = batch
    shares = losses.shares(net.loss, y, step.size, weights)
    room, least = 1.0 if precision.coarse else room, FIT * precision.roundoff
    squares, lost = np.zeros(net.param_count), 0.0
    if not precision.coarse and step.product_errors is not None:
        squares += np.square(step.product_errors)
    known = np.zeros(net.param_count) if step.uncertainty is None else step.uncertainty
    limits = update_bounds(net, step.size, precision)
    scales = {name: np.abs(g) for name, g in views(net, step.gradient).items()}
    for name, unsure in views(net, known).items():
        scales[name] += unsure / limits[name]
    rng = rng if precision.coarse else np.random.default_rng(0)  # others stay as they are drawn
    draws = DRAWS if precision.coarse else SUMS
    if precision.coarse:
        program: ReferenceTrainer = Jittered(net, step.state, precision, rng)
    else:
        several = accumulators if longest_sum(net, step.size) > LONG else 1
        program, step = OneByOne(net, step.state, precision, rng, several), replace(step, partial=several > 1)
    for draw in range(1, draws + 1):
        loss, correct, found = program.gradients(x, y, places=places, shares=shares)
        if correct != step.correct and not precision.coarse:
            return step, Excess("roundings change which logit of a sample is the largest")
        lost += (loss - step.loss) ** 2 / draws
        squares += np.square(found - step.gradient) / draws
        if draw not in LOOKS and draw < draws:
            continue
        errors = np.sqrt(_shared(net, squares))
        # those of a few draws alone, if they are much too large
        seen = errors if precision.coarse else errors * math.sqrt(draws / draw) / (1 + SURE * (1 / draw - 1 / draws))
        if reason := _too_large(views(net, seen), scales, limits, room, least):
            return step, reason
        if draw == REAL and not precision.coarse:
            errors *= math.sqrt(draws / draw)
            slight = {name: SLIGHT * limit for name, limit in limits.items()}
            if not _too_large(views(net, errors), scales, slight, 0.0, 0.0):  # what more draws find changes nothing
                lost *= draws / draw
                break
    more = np.zeros(net.param_count)
    at = views(net, more)
    for name, off in views(net, errors).items():
        at[name][...] = np.maximum(0, SIGMAS * off - limits[name] * scales[name])
    step = replace(step, uncertainty=known + more)
    if precision.coarse:
        return step, ""
    lost = max(0.0, SIGMAS * math.sqrt(lost) - loss_bound(net, step.size, precision) * abs(step.loss))
    return replace(step, loss_uncertainty=step.loss_uncertainty + lost), ""


def _shared(net: Net, squares: np.ndarray) -> np.ndarray:
    """Squares of errors (param_count,), each averaged with its tensor's mean: few draws of one number are uncertain."""
    out = squares / 2
    for place in param_slices(net):
        out[place.start : place.stop] += np.mean(squares[place.start : place.stop]) / 2
    return out


def _too_large(
    errors: dict[str, np.ndarray], scales: dict[str, np.ndarray], limits: dict[str, float], room: float, least: float
) -> str:
    """Sentence on the tensor whose errors are furthest beyond its bound, if also beyond `least`; "" if none's are."""
    worst = Excess("", 0.0)
    for name, limit in limits.items():
        error = distance(errors[name], np.zeros(errors[name].shape), scales[name])
        if not error <= max(limit, min(room * limit, least)) and not error / limit <= worst.times:
            worst = Excess(
                f"roundings change the gradient of {name} by {error:.1e}, the bound is {limit:.1e}", error / limit
            )
    return worst
