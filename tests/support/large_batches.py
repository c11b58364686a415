"""Liars of large batches: what each does wrong weighs the less, the more samples a batch has.

Batches of 64 samples and fewer are trained honestly, so that no small case of a proof gives these liars away: they have
to be caught by full batches at the size that is proven.
"""

from __future__ import annotations

import numpy as np
from liars import UPDATE, Liar, Wrapper, blended

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.nets import Net
from warpladder.proof.bounds import update_bounds
from warpladder.rungs.numpy import build as honest
from warpladder.trainers.base import State

SMALL = 64  # samples up to which these liars are honest

#: Batch sizes that a class tries; None is the full batch.
BATCHES = (1, 2, 7, 64, 255, 256, 512, 1000, 1024, 2048, 4096, 10_000, None)


class Counterfeit(Wrapper):
    """Large batches are trained on other samples than they hold: `positions` (any count,) of the batch, their sum
    divided by its size.
    """

    def positions(self, size: int) -> np.ndarray:
        raise NotImplementedError

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        assert self.data is not None
        size, first = self.size(order, step), step * self.config.batch(order.n)
        if size <= SMALL:
            return state
        some = order.indices(first, first + size)[self.positions(size)]
        y = None if self.data.train_y is None else self.data.train_y[some]
        with honest(self.net, self.config.but(batch_size=None), before) as part:
            part.load(self.data.but(train_x=self.data.train_x[some], train_y=y))
            part.run(Order(0, 0, len(some), shuffle=False), 0, 1)
            return blended(self.net, before, part.state(), lambda name, update: len(some) / size)


class DropsASample(Counterfeit):
    """A grid of threads that is one short."""

    def positions(self, size: int) -> np.ndarray:
        return np.arange(size - 1)


class CountsASampleTwice(Counterfeit):
    """Two blocks whose ranges overlap by one."""

    def positions(self, size: int) -> np.ndarray:
        return np.append(np.arange(size), size // 2)


class SwapsASample(Counterfeit):
    """Reads its neighbour in place of one sample."""

    def positions(self, size: int) -> np.ndarray:
        return np.where(np.arange(size) == size - 1, 0, np.arange(size))


class DividesByOneLess(Wrapper):
    """The mean of a sample variance, where that of a population is meant."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        size = self.size(order, step)
        return state if size <= SMALL else blended(self.net, before, state, lambda name, update: size / (size - 1))


def large(net: Net, config: TrainConfig) -> bool:
    return config.batch_size is None or config.batch_size > SMALL


def seen(net: Net, config: TrainConfig) -> bool:
    """Whether a divisor that is one too small stands out from rounding in some tensor, with twice the bound for a
    margin.
    """
    size = config.batch_size
    return large(net, config) and (size is None or 1 / (size - 1) > 2 * min(update_bounds(net, size).values()))


LARGE = (
    Liar(DropsASample, UPDATE, large),
    Liar(CountsASampleTwice, UPDATE, large),
    Liar(SwapsASample, UPDATE, large),
    Liar(DividesByOneLess, UPDATE, seen),
)
