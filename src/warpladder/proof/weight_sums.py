"""Sums of the weight gradients of a large batch of few numbers, added by one accumulator.

A byte has 256 values: where a sample is one number, each term of a weight's gradient is hundreds of times in a batch of
70,000. Equal terms round alike, as in a bias's sum (bias_sums.py). Plain array code may add them in blocks while the
same code on more threads adds them one by one, so that the witness does not show how far off that is.
"""

from __future__ import annotations

import math

import numpy as np

from ..config import TrainConfig
from ..machine.precision import Precision
from ..nets import Layer, Linear, Net
from ..nets.params import views
from ..ops.loss import reference as losses
from ..trainers.base import State
from .bias_sums import AT_ONCE, in_a_row
from .reference import ReferenceTrainer
from .verdict import distance
from .witness import Batch

LARGE = 1 << 12  # samples of a batch in which equal terms add up to more than its bound
MOST = 1 << 24  # terms of a layer that are added, at most
LEVELS = 4  # of a number in exact data


class WeightSums(ReferenceTrainer):
    """Reference that finds by how much a sum of each weight's terms, rounded after each, is off.

    errors : by name of a linear layer's weight, (outputs, inputs) float64, in the batch's order or its reverse.
    """

    def __init__(self, net: Net, state: State, precision: Precision) -> None:
        super().__init__(net, TrainConfig(), state)
        self.kind = np.dtype("float64" if precision.wide else precision.element)
        self.errors: dict[str, np.ndarray] = {}

    def _factors(self, layer: Layer, *given: np.ndarray | None) -> tuple:
        if isinstance(layer, Linear) and len(given) == 3:
            x, w, dy = given
            assert x is not None and w is not None and dy is not None
            name = next(name for name, each in self._named.items() if each is w)
            every = -(-len(x) * w.size // MOST)  # of many outputs some stand for others
            errors = self._one_by_one(dy[:, ::every], x)
            self.errors[name] = np.repeat(errors, every, axis=0)[: len(w)]
        return given

    def _one_by_one(self, dy: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Errors (outputs, inputs) of the sums of dy (n, outputs) times x (n, inputs) over n, in either order."""
        true, largest = dy.T @ x, np.zeros((dy.shape[1], x.shape[1]))
        rows = max(1, AT_ONCE // true.size)
        for step in (1, -1):
            total, some, others = np.zeros(true.size, self.kind), dy[::step], x[::step]
            for first in range(0, len(x), rows):
                here = slice(first, first + rows)
                terms = some[here].astype(self.kind)[:, :, None] * others[here].astype(self.kind)[:, None, :]
                total = in_a_row(total, terms.reshape(len(terms), -1))
            np.maximum(largest, np.abs(total.reshape(true.shape) - true), out=largest)
        return largest


def are_few(net: Net, size: int) -> bool:
    """True if a batch of this size has so few numbers a sample that many of its samples are equal."""
    return size >= LARGE and math.prod(net.in_shape) < math.log(size, LEVELS)


def weight_sums(net: Net, state: State, precision: Precision, batch: Batch) -> dict[str, np.ndarray]:
    """Errors of adding a gradient's terms one by one at a state: arrays of the weights' shapes by name.

    batch : each sample is in it once.
    """
    x, y, _, places, weights = batch
    program = WeightSums(net, State(state.params), precision)
    program.gradients(x, y, places=places, shares=losses.shares(net.loss, y, len(x), weights))
    return program.errors


def beyond(
    net: Net, errors: dict[str, np.ndarray], gradient: np.ndarray, bounds: dict[str, float], reserve: float
) -> str:
    """Name of the first weight whose errors times `reserve` are beyond its bound; "" if none's are."""
    wanted = views(net, gradient)
    for name, off in errors.items():
        if not distance(off, np.zeros(off.shape), np.abs(wanted[name])) * reserve <= bounds[name]:
            return name
    return ""


def allow(
    net: Net, errors: dict[str, np.ndarray], gradient: np.ndarray, bounds: dict[str, float], reserve: float
) -> np.ndarray:
    """Additional tolerance of the gradient (param_count,): `reserve` times the errors that are beyond a bound."""
    unsure = np.zeros(net.param_count)
    for name, off in errors.items():
        if beyond(net, {name: off}, gradient, bounds, reserve):
            views(net, unsure)[name][...] = reserve * off.max()
    return unsure
