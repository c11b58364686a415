"""`Places`: inputs of random masks besides the layer, the epoch's key and positions in its order; `Moments`: numbers
of updates before a case of a proof; `rests`: sizes of last batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..config import TrainConfig
from ..data.order import GOLDEN, Order, layer_key, mix32
from ..nets import Dropout, Layer, Net, Shape
from ..ops.dropout import reference as dropout

MOMENTS = 64  # updates of a run that are tried as a case's first
EARLY = 50  # updates of a run in which Adam's corrections are large
AT_WRAP, WRAPS = 4, 2**16  # case that begins where a count in 8, 15 or 16 bits begins again
LONG = 10_000  # updates of a run with a constant rate, usually
LATEST = 2**24  # updates made before a case with a constant rate, at most
UNROLLED = 4  # samples that loops take at once: last batches have each remainder of it
FEW_RESTS, NEAR = 5, 256  # sizes of last batches that are all tried; batch up to which one that lacks a sample is
LEAST_SHARE = 1e-6  # least share of the optimizer's rate that a schedule may leave


@dataclass(frozen=True)
class Places:
    """Positions of samples in an epoch's order, from which random masks are drawn.

    key : the order's `mask_key`. at : (n,) int64, the positions.
    """

    key: int
    at: np.ndarray

    def __getitem__(self, some: slice | np.ndarray) -> Places:
        return replace(self, at=self.at[some])

    def mask(self, layer: Layer, number: int, shape: Shape) -> np.ndarray:
        """Masks (n, *shape) float64 that layer `number` draws for these samples."""
        assert isinstance(layer, Dropout)
        return dropout.mask(layer, layer_key(self.key, number), self.at, shape)


def places_in(net: Net, order: Order, first: int, last: int) -> Places | None:
    """Places of positions first..last-1 of an order; None for a net without random masks."""
    return Places(order.mask_key, np.arange(first, last)) if net.is_random else None


def in_epoch(order: Order, epoch: int) -> Order:
    """Order of another epoch, and of another seed, with the same keys, and so the same samples and masks."""
    mixed = mix32(order.seed ^ GOLDEN) ^ order.epoch
    return replace(order, seed=_unmix32(mixed ^ epoch) ^ GOLDEN, epoch=epoch)


def _unmix32(x: int) -> int:
    """Number whose `mix32` is x."""
    x = (x ^ (x >> 16)) * pow(0x846CA68B, -1, 2**32) % 2**32
    x = (x ^ (x >> 15) ^ (x >> 30)) * pow(0x7FEB352D, -1, 2**32) % 2**32
    return x ^ (x >> 16)


def same_batch(order: Order, other: Order, batch: int) -> bool:
    """True if the first batches of both orders have equal samples."""
    return set(order.indices(0, batch)) == set(other.indices(0, batch))


def rests(batch: int, seen: set[int], rng: np.random.Generator) -> list[int]:
    """Sizes of last batches, but those `seen`: all if they are few; else one of each remainder of UNROLLED, drawn by
    its logarithm, and the one that lacks a sample.
    """
    left = [size for size in range(1, batch) if size not in seen]
    if len(left) <= FEW_RESTS:
        return left
    sizes = {batch - 1} if batch <= NEAR else set[int]()
    for remainder in {size % UNROLLED for size in left} - {size % UNROLLED for size in sizes}:
        alike = [size for size in left if size % UNROLLED == remainder]
        weights = 1 / np.array(alike)
        sizes.add(int(rng.choice(alike, p=weights / weights.sum())))
    return sorted(sizes - seen)


class Moments:
    """Random numbers of updates before a case, from their own generator, so that other draws do not change."""

    def __init__(self, config: TrainConfig, seed: int) -> None:
        self.config = config
        self.moments = np.random.default_rng([seed, 2])
        self.placed = 0  # cases whose first update was drawn

    def moment(self, samples: int, steps: int) -> int:
        """Number of updates before a case of `steps` steps: within the run, where the schedule leaves a rate, else 0.

        The first case, on which settings must show, begins early, while Adam's corrections are far from 1, and, if
        possible, at a rate other than the optimizer's own. With a constant rate runs are as long as real ones.
        """
        config, never, first = self.config.but(learning_rate=1.0), self.config.schedule.steady, not self.placed
        self.placed += 1
        last = max(1, LONG if never else 0, config.epochs * config.steps(samples) - steps)
        logs = np.exp(self.moments.uniform(0, np.log(LATEST if never else last), MOMENTS // 2)).astype(np.int64)
        moments = self.moments.permutation([*self.moments.integers(1, last + 1, MOMENTS // 2), *logs])
        if first:
            moments = np.concatenate([self.moments.integers(1, min(last, EARLY) + 1, MOMENTS), moments])
        wraps = WRAPS * int(self.moments.integers(1, 16)) + int(self.moments.integers(EARLY))
        if self.placed == AT_WRAP and (never or wraps <= last):
            moments = np.insert(moments, 0, wraps)
        found = 0
        for moment in moments.tolist():
            rates = config.rates(moment, moment + steps, samples)
            if rates.min() >= LEAST_SHARE:
                found = found or moment
                if never or not first or np.any(rates != 1.0):
                    return moment
        return found

    def of_each(self, samples: int, steps: int) -> list[int]:
        """Numbers of updates before each of some steps, from all parts of a run; with a constant rate by their
        logarithms, up to LATEST.
        """
        if not self.config.schedule.steady:
            return [self.moment(samples, 1) for _ in range(steps)]
        parts = np.linspace(np.log(EARLY), np.log(LATEST), steps + 1)
        return np.exp(self.moments.uniform(parts[:-1], parts[1:])).astype(np.int64).tolist()

    def after_the_end(self, samples: int) -> int:
        """Number of updates before a step after the end of a run, at which the schedule leaves a rate, if it does."""
        end, config = self.config.epochs * self.config.steps(samples), self.config.but(learning_rate=1.0)
        moments = end + np.exp(self.moments.uniform(0, np.log(LONG), MOMENTS)).astype(np.int64)
        left = (moment for moment in moments.tolist() if config.rates(moment, moment + 1, samples)[0] >= LEAST_SHARE)
        return next(left, int(moments[0]))
