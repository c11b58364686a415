"""Liars about `loss_every`: each does something wrong only because some epochs have losses and others have none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from liars import UPDATE, Liar, Wrapper, blended

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.trainers.base import State, StepLog


class ComputesALossInEveryEpoch(Wrapper):
    """Was never told of `loss_every`."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(loss_every=1)


class ComputesNoLoss(Wrapper):
    """Says so of every epoch, also where a loss is asked for."""

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return StepLog.without_loss(log.size)


class ComputesNoLossInTheLastStep(Wrapper):
    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        last = step == self.config.steps(order.n) - 1
        return StepLog.without_loss(log.size) if last else log


class ClaimsNaN(Wrapper):
    """Reports NaN in epochs without losses, which says that training diverged."""

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return log if log.has_loss else StepLog(np.full(1, np.nan), np.zeros(1, np.int64), log.size)


class ClaimsStaleLosses(Wrapper):
    """Reports in epochs without losses the last one that was computed."""

    kept: StepLog | None = None

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        self.kept = log if log.has_loss else self.kept
        return log if self.kept is None else replace(self.kept, size=log.size)


class ReportsStaleLosses(Wrapper):
    """Reports after an epoch without losses the last loss from before it: a buffer read before it was written."""

    kept: StepLog | None = None
    left_out = False

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        if not log.has_loss:
            self.left_out = True
            return log
        stale, self.kept = self.kept, log
        if self.left_out and stale is not None:
            self.left_out = False
            return replace(stale, size=log.size)
        return log


class KeepsOldLossesAroundTheMask(Wrapper):
    """Says that no loss was computed, and hands some out all the same."""

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return log if log.has_loss else StepLog(np.zeros(1), np.zeros(1, np.int64), log.size, has_loss=False)


class IsWrongWithoutLosses(Wrapper):
    """Forgets to divide by the batch where no loss is computed beside it."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return (
            state
            if self.config.has_loss(order.epoch)
            else blended(self.net, before, state, lambda name, u: self.size(order, step))
        )


class IsSlightlyWrongWithoutLosses(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return state if self.config.has_loss(order.epoch) else blended(self.net, before, state, lambda name, u: 1.0025)


class TrainsNothingWithoutLosses(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return state if self.config.has_loss(order.epoch) else before


class CountsNoUpdatesWithoutLosses(Wrapper):
    """The loss moves the counter on."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return state if self.config.has_loss(order.epoch) else state.but(step=before.step)


class CountsEpochsFromZero(Wrapper):
    """Computes losses in epochs 0, 3, 6, ... in place of 2, 5, 8, ..."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        return log if order.epoch % self.config.loss_every == 0 else StepLog.without_loss(log.size)


THIRD = {"loss_every": 3}

LOSS_LIARS = tuple(
    Liar(build, caught_by, settings=THIRD)
    for build, caught_by in (
        (ComputesALossInEveryEpoch, ("no loss",)),
        (ComputesNoLoss, ("log",)),
        (ComputesNoLossInTheLastStep, ("log",)),
        (ClaimsNaN, ("no loss",)),
        (ClaimsStaleLosses, ("no loss",)),
        (ReportsStaleLosses, ("loss", "correct")),
        (KeepsOldLossesAroundTheMask, ("log",)),
        (IsWrongWithoutLosses, UPDATE),
        (IsSlightlyWrongWithoutLosses, UPDATE),
        (TrainsNothingWithoutLosses, UPDATE),
        (CountsNoUpdatesWithoutLosses, ("step",)),
        (CountsEpochsFromZero, ("log",)),
    )
)
