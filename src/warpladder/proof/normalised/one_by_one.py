"""Errors of a program that adds up each mean of a normalisation in one accumulator, or in a few.

Such errors are common to all numbers of a channel and do not average out over a batch. They are those of real sums: a
batch's own terms are added one by one in float32, in drawn orders of the samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...config import TrainConfig
from ...machine.precision import Precision
from ...nets import Conv2d, Layer, Net
from ...ops.batchnorm import reference as batchnorm
from ...trainers.base import State
from ..bias_sums import AT_ONCE, in_a_row
from ..places import Places
from ..reference import ReferenceTrainer

REAL = 4  # passes with sums in drawn orders


class Alike(NamedTuple):
    """Equal samples of a batch.

    first : (different,) int64, number of each different sample where it is first. which : (n,) int64, number of each
    sample among the different ones. times : (different,) int64, how often each is in the batch.
    """

    first: np.ndarray
    which: np.ndarray
    times: np.ndarray

    def has(self, values: np.ndarray | None) -> bool:
        """True if values (n, ...) are equal for equal samples."""
        return values is not None and bool(np.array_equal(values, values[self.first][self.which]))


def _alike(x: np.ndarray) -> Alike | None:
    """Equal samples of x (n, ...); None if most of them differ."""
    seen: dict[bytes, int] = {}
    which = np.array([seen.setdefault(each.tobytes(), len(seen)) for each in x])
    first, times = np.unique(which, return_index=True, return_counts=True)[1:]
    return Alike(first, which, times) if 2 * len(first) <= len(x) else None


class OneByOne(ReferenceTrainer):
    """Reference whose normalisations have the errors of means that are added one by one, with a rounding after each.

    Convolutions pass each different sample once: of many equal ones they would take nearly all of the time.

    accumulators : number of partial sums of each mean.
    moments : input of each normalisation, and the batch's mean and variance as the program has them, (channels,)
        float64.
    """

    def __init__(
        self, net: Net, state: State, precision: Precision, rng: np.random.Generator, accumulators: int = 1
    ) -> None:  # fmt: skip
        super().__init__(net, TrainConfig(), state)
        self.accumulators = accumulators
        self.roundoff, self.rng, self.kind = precision.roundoff, rng, np.dtype(precision.element)
        self.moments: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        # of each sum of a pass, its errors (channels,) in the first REAL passes, then their root mean square
        self.sizes: list[list[np.ndarray]] = []
        self.number = 0  # of the next sum
        self.alike: Alike | None = None
        self.exact: list[np.ndarray] = []  # inputs up to the first normalisation, which have no such errors

    def activations(self, x: np.ndarray, places: Places | None = None) -> list[np.ndarray]:
        """Inputs of each layer, and the outputs, for a batch; the same object x has the same places."""
        self.moments, self.order, self.number = [], self.rng.permutation(len(x)), 0
        if not (self.exact and self.exact[0] is x):
            self.alike = None if places is not None else _alike(x)
            self.exact = super().activations(x, places)[: self.net.layers.index(self._first()) + 1]
            self.moments, self.sizes, self.number = [], [], 0
        out = list(self.exact)
        for i in range(len(out) - 1, len(self.net.layers)):
            out.append(self.leaving(i, out[-1], places, skip=self.stored(i, out)))
        return out

    def _first(self) -> Layer:
        return next(layer for layer in self.net.layers if layer.normalizes)

    def leaving(
        self, i: int, x: np.ndarray, places: Places | None = None, trains: bool = True, skip: np.ndarray | None = None
    ) -> np.ndarray:
        layer, name = self.net.layers[i], self.net.names[i]
        if not (layer.normalizes and trains):
            if isinstance(layer, Conv2d) and self.alike is not None:
                return np.asarray(super().leaving(i, x[self.alike.first], places, trains, skip)[self.alike.which])
            return super().leaving(i, x, places, trains, skip)
        over = batchnorm.axes(x)
        mean = x.mean(over) + self._off(x)
        squares = np.square(x - batchnorm.across(mean, x))
        var = squares.mean(over) + self._off(squares)
        self.moments.append((x, mean, var))
        z = batchnorm.normalised(layer, x, mean, var)  # type: ignore[arg-type]
        return batchnorm.mapped(z, self._named.get(f"{name}.weight"), self._named.get(f"{name}.bias"))

    def _backward(self, layer: Layer, is_first: bool, *factors: np.ndarray | None) -> tuple:
        x, w, dy = factors
        if isinstance(layer, Conv2d) and self.alike is not None and self.alike.has(dy):
            return self._of_different(layer, is_first, *factors)
        if not layer.normalizes:
            return super()._backward(layer, is_first, *factors)
        assert x is not None and dy is not None
        mean, var = next((mean, var) for a, mean, var in self.moments if a is x)
        z = batchnorm.normalised(layer, x, mean, var)  # type: ignore[arg-type]
        over, products = batchnorm.axes(x), dy * z
        sums, count = (dy.sum(over), products.sum(over)), dy.size // dy.shape[1]
        own = sums[::-1] if layer.affine else ()  # type: ignore[attr-defined]
        if is_first:
            return own
        means = [each / count + self._off(terms) for each, terms in zip(sums, (dy, products), strict=True)]
        dx = dy - batchnorm.across(means[0], x) - z * batchnorm.across(means[1], x)
        return dx * batchnorm.across((1.0 if w is None else w) / np.sqrt(var + layer.eps), x), *own  # type: ignore

    def _of_different(self, layer: Layer, is_first: bool, *factors: np.ndarray | None) -> tuple:
        """Results of `_backward` by the different samples, of which each counts as often as it is in the batch."""
        x, w, dy = factors
        assert x is not None and dy is not None and self.alike is not None
        times = self.alike.times.reshape(-1, *(1,) * (dy.ndim - 1))
        found = super()._backward(layer, is_first, x[self.alike.first], w, dy[self.alike.first] * times)
        return found if is_first else ((found[0] / times)[self.alike.which], *found[1:])

    def _off(self, terms: np.ndarray) -> np.ndarray:
        """Error (channels,) of each channel's mean of terms (n, channels, ...): of a sum in a drawn order in the first
        passes, then drawn by the size of those.
        """
        at, self.number = self.number, self.number + 1
        if at == len(self.sizes):
            self.sizes.append([])
        seen = self.sizes[at]
        if len(seen) < REAL:
            seen.append(self._of_sum(terms))
            return seen[-1]
        if len(seen) == REAL:
            seen.append(np.sqrt(np.mean(np.square(seen), axis=0)))
        return np.asarray(self.rng.normal(0.0, seen[REAL]))

    def _of_sum(self, terms: np.ndarray) -> np.ndarray:
        """Error (channels,) of a sum in a drawn order, or what is usual for partial sums that grow as their mean and as
        the root of their number, if it is larger.
        """
        channels, several = terms.shape[1], self.accumulators
        count = terms.size // channels
        rows = np.moveaxis(terms, 1, -1).reshape(len(terms), -1, channels)
        each, total, exact = rows.astype(self.kind), np.zeros(several * channels, self.kind), np.zeros(channels)
        step = max(1, AT_ONCE // each[0].size)
        for first in range(0, len(each), step):
            some = each[self.order[first : first + step]].reshape(-1, channels)
            exact = exact + some.sum(axis=0, dtype=np.float64)
            if len(some) % several:
                some = np.concatenate([some, np.zeros((-len(some) % several, channels), some.dtype)])
            total = in_a_row(total, some.reshape(-1, several * channels))
        found = (total.reshape(several, channels).sum(axis=0, dtype=np.float64) - exact) / count
        mean, squares = exact / count, np.einsum("npc,npc->c", rows, rows) / count
        size = self.roundoff * np.sqrt(squares / 6 + count * np.square(mean / several) / 9)
        usual = self.rng.choice((-1.0, 1.0), channels) * size
        return np.where(np.abs(found) > size, found, usual)
