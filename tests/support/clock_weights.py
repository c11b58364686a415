"""Programs for the clock whose losses look right: their timed steps move the weights a little otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from clock_programs import Program

from warpladder.ladder import find
from warpladder.trainers.base import StepLog


class MovesOtherwise(Program):
    """Changes what each step has done to the weights, where the seed is not that of the settings."""

    def moved(self, before: np.ndarray, after: np.ndarray, step: int) -> np.ndarray:
        """Weights after a step, given those before it and those that the step leads to."""
        raise NotImplementedError

    def run(self, order, first, last):
        if order.seed == self.config.seed:
            return super().run(order, first, last)
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.step(order, step))
            after = self.inner.state()
            params = self.moved(before.params, after.params, step).astype(after.params.dtype)
            self.inner.set_state(after.but(params=params))
        return StepLog.joined(logs)


class MovesInHalves(MovesOtherwise):
    """Computes updates in eight bits, as a backward pass in bf16 does."""

    bits = 8

    def moved(self, before, after, step):
        fraction, exponent = np.frexp(after - before)
        return before + np.ldexp(np.round(fraction * 2.0**self.bits) / 2.0**self.bits, exponent)


class MovesInElevenBits(MovesInHalves):
    bits = 11


class DropsSmallUpdates(MovesOtherwise):
    """Leaves updates out that are below a fiftieth of the largest."""

    def moved(self, before, after, step):
        update = after - before
        return before + np.where(np.abs(update) < np.abs(update).max() / 50, 0, update)


class FreezesTheLastBias(MovesOtherwise):
    def moved(self, before, after, step):
        return np.concatenate([after[:-2], before[-2:]])


class FreezesHalfInOddSteps(MovesOtherwise):
    def moved(self, before, after, step):
        half = len(after) // 2
        return np.concatenate([before[:half], after[half:]]) if step % 2 else after


class RepeatsUpdates(MovesOtherwise):
    """Every other step makes the update of the step before it."""

    last: Any = None

    def moved(self, before, after, step):
        if step % 2 and self.last is not None:
            return before + self.last
        self.last = after - before
        return after


class LosesItsOnlyUpdate(MovesOtherwise):
    """Leaves out the update of the first step, whose loss is right: where a turn has one step, that is all of it."""

    def moved(self, before, after, step):
        return after if step else before


class SkipsEpochsWithoutLosses(Program):
    """Trains nothing in epochs without losses, where the seed is not that of the settings."""

    def run(self, order, first, last):
        if order.seed == self.config.seed or self.config.has_loss(order.epoch):
            return super().run(order, first, last)
        before = self.inner.state().copied()
        log = super().run(order, first, last)
        self.inner.set_state(before.but(step=before.step + last - first))
        return log


class HalvesEpochsWithoutLosses(MovesInHalves):
    """Has updates of eight bits in epochs without losses."""

    def run(self, order, first, last):
        return (Program if self.config.has_loss(order.epoch) else MovesInHalves).run(self, order, first, last)


WEIGHT_CHEATS = (
    MovesInHalves, DropsSmallUpdates, MovesInElevenBits, FreezesTheLastBias, FreezesHalfInOddSteps, RepeatsUpdates,
)  # fmt: skip
NO_LOSS_CHEATS = SkipsEpochsWithoutLosses, HalvesEpochsWithoutLosses


# Honest programs


class MovesInTwoParts(Program):
    """Adds each update in two halves, with a rounding after each."""

    def step(self, order, step):
        before = self.inner.state().copied()
        log = super().step(order, step)
        after = self.inner.state()
        half = (after.params - before.params) * np.float32(0.5)
        self.inner.set_state(after.but(params=before.params + half + half))
        return log


class TrainsInDouble(Program):
    """Computes each step in float64, and rounds its weights."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.wide = find("numpy", precision="fp64").build(net, config, state.copied(np.float64))

    def load(self, dataset):
        super().load(dataset)
        self.wide.load(dataset)

    def step(self, order, step):
        type(self).steps += 1
        self.wide.set_state(self.inner.state().copied(np.float64))
        log = self.wide.run(order, step, step + 1)
        self.inner.set_state(self.wide.state().copied(np.float32))
        return log


class TrainsInLoops(Program):
    """Adds one by one."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.inner = find("loops").build(net, config, state)


class TrainsNatively(Program):
    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.inner = find("native", threads=1).build(net, config, state)


WEIGHT_HONEST = MovesInTwoParts, TrainsInDouble, TrainsInLoops, TrainsNatively
