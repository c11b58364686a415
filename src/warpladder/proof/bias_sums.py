"""Sums of the bias gradients of a batch: the largest differences between honest programs.

A bound assumes independent rounding errors. In a sum with few different terms they are not: while the sum stays
between two powers of two, equal terms round alike, and a program that adds them one by one has a larger error than one
that adds in pairs, as the witness does. And if terms cancel, the rounding errors of the terms exceed their sum;
whether these errors cancel too is chance, and differs between programs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..machine.precision import Precision, named
from ..nets import AdaptiveAvgPool2d, AvgPool2d, HuberLoss, L1Loss, Net
from ..nets.params import param_slices, views
from .verdict import distances

# Times the witness's error in a term: BLAS adds in many accumulators, a single one rounds more, and RESERVE covers the
# rest.
CHAIN = 2.0
AT_ONCE = 1 << 17  # numbers of one call, few enough to stay in the cache
# orders of a batch's samples in which terms are added one by one, if they are few: each order has other partial sums
ORDERS = 8
FEW = 1 << 19  # terms of a layer


def has_like_terms(net: Net) -> bool:
    """True if a bias's gradient has many equal terms in every batch: slopes that the loss cuts to one size, or that an
    average pool after the last trained layer divides equally among its pixels.
    """
    last = max((place.layer for place in param_slices(net)), default=0)
    is_spread = any(isinstance(layer, AvgPool2d | AdaptiveAvgPool2d) for layer in net.layers[last:])
    return is_spread or isinstance(net.loss, L1Loss | HuberLoss)


class BiasSums:
    """Terms of each bias's gradient, a sum over the pixels and samples of a batch; earlier gradients have the same
    terms.

    Parameters
    ----------
    net : Net
    which : (size,) ints
        Number of the distinct sample of which each sample of the batch is a copy.
    precision : str or Precision
        Precision of the terms and of their sum.
    """

    def __init__(self, net: Net, which: np.ndarray, precision: str | Precision = "fp32") -> None:
        self.net, self.which, self.kind = net, which, named(precision)
        self.added = np.dtype("float64" if self.kind.wide else self.kind.element)
        # By layer: the true terms, (distinct, channels, pixels) in the witness's type, and sums of the absolute errors
        # of the witness's terms, at least one rounding each, (distinct, channels) float64.
        self.truth: dict[int, np.ndarray] = {}
        self.errors: dict[int, np.ndarray] = {}
        self.unsure: np.ndarray | None = None  # additional tolerance of the gradient

    def add_truth(self, some: np.ndarray, layer: int, dy: np.ndarray) -> None:
        """Add the true terms of distinct samples.

        some : (samples,) their numbers; dy : (samples, channels, ...), gradient of the whole batch's mean loss. A layer
        without a bias has no such sums.
        """
        if "bias" not in self.net.layers[layer].param_shapes(self.net.shapes[layer]):
            return
        if layer not in self.truth:
            shape = int(self.which.max()) + 1, dy.shape[1], int(np.prod(dy.shape[2:]))
            self.truth[layer] = np.zeros(shape, self.kind.element)
            self.errors[layer] = np.zeros(shape[:2])
        self.truth[layer][some] = dy.reshape(len(dy), *self.truth[layer].shape[1:])

    def add_witness(self, first: int, layer: int, dy: np.ndarray) -> None:
        """Add the witness's terms of the batch's samples from number `first` on.

        dy : (samples, channels, ...), gradient of the mean loss over these samples alone.
        """
        truth = self.truth[layer]
        dy = dy.reshape(len(dy), *truth.shape[1:]) * truth.dtype.type(len(dy) / len(self.which))
        rows = max(1, AT_ONCE // truth[0].size)
        for at in range(0, len(dy), rows):
            some = dy[at : at + rows]
            which = self.which[first + at : first + at + len(some)]
            want = truth[which]
            off = np.maximum(np.abs(some - want), np.abs(want) * self.kind.roundoff)
            np.add.at(self.errors[layer], which, off.sum(axis=2, dtype=np.float64))

    def serial_error(self, gradient: np.ndarray, bounds: dict[str, float], reserve: float) -> str:
        """Reason why a program that adds the true terms one by one may exceed the bounds; "" if it does not.

        Parameters
        ----------
        gradient : (param_count,) float64
            Gradient of the batch's mean loss.
        bounds : dict
            Bound of each tensor's gradient.
        reserve : float
            Factor by which an error must be below its bound.
        """
        for name, want, off in self._serial(gradient):
            error = self._worst(name, off, want, bounds)
            if not error * reserve <= bounds[name]:
                return _sentence(name, error, "where its terms are added one after the other", bounds[name], reserve)
        return ""

    def allow(self, gradient: np.ndarray, bounds: dict[str, float], reserve: float) -> np.ndarray | None:
        """Additional tolerance of the gradient, (param_count,), where a program that adds the true terms one by one
        exceeds a bound; None where none does. Both errors are measured with it from then on.
        """
        unsure = np.zeros(len(gradient))
        for name, want, off in self._serial(gradient):
            if not self._worst(name, off, want, bounds) * reserve <= bounds[name]:
                views(self.net, unsure)[name][...] = reserve * np.abs(off).max()
        self.unsure = unsure if np.any(unsure) else None
        return self.unsure

    def repeated_error(self, gradient: np.ndarray, bounds: dict[str, float], reserve: float) -> str:
        """Reason why the witness's errors in the terms may make honest programs exceed the bounds; "" if not."""
        named = views(self.net, gradient)
        for layer in self.truth:
            name = f"{self.net.names[layer]}.bias"
            error = self._worst(name, CHAIN * self._repeated_errors(layer)[None], named[name], bounds)
            if not error * reserve <= bounds[name]:
                return _sentence(name, error, "where like terms are rounded alike", bounds[name], reserve)
        return ""

    def _serial(self, gradient: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Name, gradient (channels,) and errors (orders, channels) of each bias: errors of adding its gradient's terms
        one after the other.
        """
        named = views(self.net, gradient)
        for layer in self.truth:
            name = f"{self.net.names[layer]}.bias"
            yield name, named[name], np.stack(list(self._one_by_one(layer))) - named[name]

    def _worst(self, name: str, off: np.ndarray, want: np.ndarray, bounds: dict[str, float]) -> float:
        """Largest distance from the true `want` (channels,), relative to it, of sums with errors `off` (sums,
        channels); the tolerance that `allow` added is part of the scale.
        """
        scale = np.abs(want)
        if self.unsure is not None:
            scale = scale + views(self.net, self.unsure)[name] / bounds[name]
        return float(np.max(distances(np.square(off), np.broadcast_to(np.square(scale), off.shape))))

    def _one_by_one(self, layer: int) -> Iterator[np.ndarray]:
        """Sums (channels,) of the terms, rounded after each, in the batch's order and, if few, in other orders."""
        terms, rng = np.ascontiguousarray(self.truth[layer].transpose(0, 2, 1)), np.random.default_rng(0)
        rows = max(1, AT_ONCE // terms[0].size)
        for number in range(ORDERS if len(self.which) * terms[0].size <= FEW else 1):
            which, total = rng.permutation(self.which) if number else self.which, np.zeros(terms.shape[2], self.added)
            for first in range(0, len(which), rows):
                total = in_a_row(total, terms[which[first : first + rows]].reshape(-1, len(total)))
            yield total

    def _repeated_errors(self, layer: int) -> np.ndarray:
        """Errors (channels,) of the witness: added over samples with equal terms, whose errors have one sign, and added
        in squares over others.
        """
        terms, off = self.truth[layer].sum(axis=2).T, self.errors[layer].T
        order = np.argsort(terms, axis=1, kind="stable")
        terms, off = np.take_along_axis(terms, order, 1), np.take_along_axis(off, order, 1)
        first = np.ones(terms.shape, np.bool_)  # of a group of equals, or of another channel
        first[:, 1:] = terms[:, 1:] != terms[:, :-1]
        sums = np.bincount(np.cumsum(first) - 1, off.ravel())
        return np.sqrt(np.bincount(np.nonzero(first)[0], sums**2))


def in_a_row(total: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Sum (channels,) of `total` and terms (count, channels), rounded after each term in their common dtype."""
    rows = np.concatenate([total[None], terms])
    if rows.shape[1] == 1:  # adjacent numbers would be added in pairs
        return np.add.accumulate(rows, axis=0)[-1]
    return np.add.reduce(rows, axis=0)


def _sentence(name: str, error: float, how: str, limit: float, reserve: float) -> str:
    return f"the gradient of {name} is off by {error:.1e} {how}, more than 1/{reserve:g} of the bound of {limit:.1e}"
