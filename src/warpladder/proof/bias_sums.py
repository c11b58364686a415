"""The sums of a batch's gradient in the witness: how far honest programs may come apart in them.

A bound takes rounding errors for independent. Where a sum has few different terms they are not: while the sum stays
between two powers of two, equal terms round alike, and a program that adds them one after the other is off by so much
more than one that adds in pairs, as the witness does. And where terms cancel, what was rounded in each of them
outweighs their sum; whether it cancels too is luck, which another program may lack.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..machine.precision import Precision, named
from ..nets import Net
from ..nets.params import views
from .verdict import distance

# times the witness's error in a term: BLAS adds in many accumulators, and one alone rounds the more, of which RESERVE
# covers a part
CHAIN = 2.0
AT_ONCE = 1 << 17  # numbers that are looked at in one call, few enough to stay in the cache
# of a batch's samples, in which their terms are added one after the other, where there are few: another order is
# another path
ORDERS = 8
FEW = 1 << 19  # terms of a layer


class Sums:
    """The terms of every bias's gradient: a sum over the pixels and the samples of a batch, which all gradients before
    it share.

    Parameters
    ----------
    net : Net
    which : (size,) ints
        Which of the distinct samples each sample of the batch is.
    precision : str or Precision
        What terms are computed in, and added up in.
    """

    def __init__(self, net: Net, which: np.ndarray, precision: str | Precision = "fp32") -> None:
        self.net, self.which, self.kind = net, which, named(precision)
        self.added = np.dtype("float64" if self.kind.wide else self.kind.element)
        # By the layer's number: the true terms, (distinct, channels, pixels) as the witness stores them, and the
        # witness's errors in these, one rounding at least, added up without signs, (distinct, channels) float64.
        self.truth: dict[int, np.ndarray] = {}
        self.apart: dict[int, np.ndarray] = {}

    def expect(self, some: np.ndarray, of: int, layer: int, dy: np.ndarray) -> None:
        """Take the truth for distinct samples, their numbers `some` (samples,): dy, (samples, channels, ...), of a mean
        loss over `of` samples.
        """
        if layer not in self.truth:
            shape = int(self.which.max()) + 1, dy.shape[1], int(np.prod(dy.shape[2:]))
            self.truth[layer] = np.zeros(shape, self.kind.element)
            self.apart[layer] = np.zeros(shape[:2])
        self.truth[layer][some] = dy.reshape(len(dy), *self.truth[layer].shape[1:]) * (of / len(self.which))

    def meet(self, first: int, layer: int, dy: np.ndarray) -> None:
        """Take what the witness has for the batch's samples from number `first` on: dy, (samples, channels, ...), of
        the mean loss over these alone.
        """
        truth = self.truth[layer]
        dy = dy.reshape(len(dy), *truth.shape[1:]) * truth.dtype.type(len(dy) / len(self.which))
        rows = max(1, AT_ONCE // truth[0].size)
        for at in range(0, len(dy), rows):
            some = dy[at : at + rows]
            which = self.which[first + at : first + at + len(some)]
            want = truth[which]
            off = np.maximum(np.abs(some - want), np.abs(want) * self.kind.roundoff)
            np.add.at(self.apart[layer], which, off.sum(axis=2, dtype=np.float64))

    def cancel(self, gradient: np.ndarray, bounds: dict[str, float], reserve: float) -> str:
        """Why a program that adds the terms one after the other may miss the bounds, in words; empty where it does not.
        Asks for no witness.

        Parameters
        ----------
        gradient : (param_count,) float64
            Of the batch's mean loss.
        bounds : dict
            Of each tensor's gradient.
        reserve : float
            How often an error must fit into its bound.
        """
        named = views(self.net, gradient)
        for layer in self.truth:
            name = f"{layer}.bias"
            error = max(distance(got, named[name]) for got in self._one_by_one(layer))
            if not error * reserve <= bounds[name]:
                return _told(name, error, "where its terms are added one after the other", bounds[name], reserve)
        return ""

    def unfit(self, gradient: np.ndarray, bounds: dict[str, float], reserve: float) -> str:
        """Why the witness's errors in the terms may make honest programs miss the bounds, in words; empty where they do
        not. Takes what `cancel` takes.
        """
        named = views(self.net, gradient)
        for layer in self.truth:
            name = f"{layer}.bias"
            error = distance(named[name] + CHAIN * self._alike(layer), named[name])
            if not error * reserve <= bounds[name]:
                return _told(name, error, "where like terms are rounded alike", bounds[name], reserve)
        return ""

    def _one_by_one(self, layer: int) -> Iterator[np.ndarray]:
        """(channels,): the terms, added with a rounding after each, in the batch's order and, where they are few, in
        others.
        """
        terms, rng = np.ascontiguousarray(self.truth[layer].transpose(0, 2, 1)), np.random.default_rng(0)
        rows = max(1, AT_ONCE // terms[0].size)
        for number in range(ORDERS if len(self.which) * terms[0].size <= FEW else 1):
            which, total = rng.permutation(self.which) if number else self.which, np.zeros(terms.shape[2], self.added)
            for first in range(0, len(which), rows):
                total = in_a_row(total, terms[which[first : first + rows]].reshape(-1, len(total)))
            yield total

    def _alike(self, layer: int) -> np.ndarray:
        """(channels,): the witness's errors, added up where samples have the same terms, whose errors have one sign,
        and in their squares where not.
        """
        terms, off = self.truth[layer].sum(axis=2).T, self.apart[layer].T
        order = np.argsort(terms, axis=1, kind="stable")
        terms, off = np.take_along_axis(terms, order, 1), np.take_along_axis(off, order, 1)
        first = np.ones(terms.shape, np.bool_)  # of a group of equals, or of another channel
        first[:, 1:] = terms[:, 1:] != terms[:, :-1]
        sums = np.bincount(np.cumsum(first) - 1, off.ravel())
        return np.sqrt(np.bincount(np.nonzero(first)[0], sums**2))


def in_a_row(total: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(channels,): total and terms, (count, channels), added one after the other, in the type that holds both, with a
    rounding after each.
    """
    rows = np.concatenate([total[None], terms])
    if rows.shape[1] == 1:  # numbers that lie side by side would be added in pairs
        return np.add.accumulate(rows, axis=0)[-1]
    return np.add.reduce(rows, axis=0)


def _told(name: str, error: float, how: str, limit: float, reserve: float) -> str:
    return f"the gradient of {name} is off by {error:.1e} {how}, more than 1/{reserve:g} of the bound of {limit:.1e}"
