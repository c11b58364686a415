"""Checks of calls of many steps and many epochs: against the reference's history, and against equal steps in short
calls, at other positions of other epochs, by another trainer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..data.dataset import Dataset
from ..data.order import Order
from ..nets.params import views
from ..trainers.base import State, StepLog, goals
from .context import GuardedTrainer, ProofContext
from .history import ReferenceHistory
from .normalised.whole_batches import rest_of
from .places import in_epoch
from .prediction_checks import check_outputs_of_state
from .repeat_checks import check_equal
from .samples import SampleSource, drawn_weights

LEAST_REACH = 4  # steps of a long call, however slow the trainer
MOST_REACH = 1024
CALLS_SHARE = 0.03  # share of the proof's seconds that each of four long runs may add
SET_BYTES = 1 << 25  # bytes of a data set of many steps, at most
SHORT = 3  # steps of a short call, at most: calls of so many steps are compared with the reference
MIDDLE = 4  # times as many steps as a call within an epoch has
BATCHES = 2  # distinct batches of a data set of many steps
MOST_EPOCHS = 512
MOST_STEPS = 4  # full batches of an epoch in `check_epochs`, below this number
LATEST = 2.0**30  # updates made before, at most, if every step is made with the same numbers


def check_history(context: ProofContext, history: ReferenceHistory) -> None:
    """Check that the trainer's history equals the reference's within tolerances: each epoch's losses, and the last
    weights.

    All epochs except the last few are one call.
    """
    trainer = context.make(history.config, history.start)
    trainer.load(history.dataset)
    orders, steps = list(history.orders), history.config.steps(len(history.dataset.train_x))
    whole = len(orders) - int(context.rng.integers(min(3, len(orders))))
    logs = _epochs_at_once(context, trainer, orders[:whole])
    logs += [trainer.run(order, 0, steps) for order in orders[whole:]]
    where = f"after {len(orders)} epochs of {steps} steps, {whole} of them in one call"
    for number, (order, log) in enumerate(zip(orders, logs, strict=True)):
        epoch = f"epoch {number + 1} of {len(orders)}, {whole} of them in one call"
        context.check_log(log, order, steps, epoch)
        if log.has_loss:
            some = slice(number * steps, (number + 1) * steps)
            allowed, off = history.loss_tolerances[some], np.abs(log.loss - history.losses[some])
            worst = int(np.argmax(np.where(off == 0, 0.0, off / allowed)))  # a NaN counts as the largest
            size = abs(history.losses[some][worst]) or allowed[worst] or 1.0  # all samples may be learnt
            context.ledger.within("history", "the loss", epoch, off[worst] / size, allowed[worst] / size)
    end = context.state(trainer, where)
    for name, off in views(context.net, end.params - history.end).items():
        moved = history.movements[name] or 1.0
        error, bound = float(np.linalg.norm(off)) / moved, history.tolerances[name] / moved
        context.ledger.within("history", name, where, error, bound)
    context.ledger.within("history", "the movement", where, history.along(end.params), history.ahead)
    context.check_count(end, history.start.step + len(orders) * steps, where)


def reach_of(context: ProofContext, pace: float) -> int:
    """Steps of a long call: a power of two, as many as the trainer makes in a share of the seconds spent so far.

    pace : seconds of a step.
    """
    spent = context.cases.seconds + time.perf_counter() - context.began
    pixels = context.cases.far.dataset.train_x[:1].nbytes * context.cases.batch
    most = MOST_REACH if context.bitwise else LEAST_REACH  # the bounds of a repetition grow with its steps
    most = max(LEAST_REACH, min(most, SET_BYTES // pixels, int(CALLS_SHARE * spent / max(pace, 1e-9))))
    return 1 << (most.bit_length() - 1)


def check_calls(
    context: ProofContext, own: GuardedTrainer, second: GuardedTrainer, source: SampleSource, reach: int
) -> None:
    """Check calls of `reach` steps and of as many epochs against short calls by a second trainer."""
    checks = _CallChecks(context, source, reach)
    every: list[Callable[[GuardedTrainer, GuardedTrainer], bool]] = [checks.check_steps, checks.check_epochs]
    if context.config.loss_every > 1:
        every.append(partial(checks.check_steps, has_loss=False))
    for check in every:
        if not check(own, second):  # at the run's own rate weights overflow, which would hide a fault
            config = context.cases.history.config
            check(*(context.make(config, context.cases.history.start) for _ in range(2)))
    if (clips := context.cases.clipped) is not None:
        checks.check_epochs(*(context.make(clips, context.cases.history.start) for _ in range(2)))


@dataclass(frozen=True)
class _Run:
    """Data set, orders of epochs, and state from which a trainer runs them."""

    dataset: Dataset
    orders: list[Order]
    start: State


class _CallChecks:
    """Data sets, epochs and starts of long calls.

    If all steps have equal numbers, a step does not depend on its position, its epoch or the number of updates. Then
    the second run has other values of each; if the net draws masks, only another number of updates.
    """

    def __init__(self, context: ProofContext, source: SampleSource, reach: int) -> None:
        self.context, self.reach, self.batch = context, reach, context.cases.batch
        self.scale, self.start = source.scale, context.cases.exact.steps[0].state
        self.x, self.y = source(context.rng, BATCHES * self.batch)
        self.weights = drawn_weights(context.rng, len(self.x))

    def check_steps(self, own: GuardedTrainer, second: GuardedTrainer, has_loss: bool = True) -> bool:
        """Check an epoch, with losses or without, in one call and in short calls; returns False if weights overflow."""
        context, config, rng = self.context, own.config, self.context.rng
        steps = 1 if config.batch_size is None else self.reach
        least = rest_of(context.net, self.batch, 1)  # a partial batch ends the epoch, where there can be one
        full = steps == 1 or config.drop_last or least >= self.batch
        part = self.batch if full else int(rng.integers(least, self.batch))
        moves = config.steady and steps > 1 and not context.net.is_random
        shift = BATCHES * int(rng.integers(1, 5)) if moves else 0
        n = (steps - 1) * self.batch + part
        order, later = self._order(n, has_loss), self._order(n + shift * self.batch, has_loss)
        later = replace(later, shuffle=not order.shuffle)
        if config.batch_size is None or context.net.is_random:  # a full batch may be added in the order of storage
            later = order
        first, moved = self._run([order]), self._run([later])
        log = self._begin(own, first).run(order, 0, steps)
        context.check_log(log, order, steps, f"{steps} steps in one call")
        end = context.state(own, f"after {steps} steps in one call").copied()
        parts = self._short_calls(self._begin(second, moved), later, shift, shift + steps)
        what = f"{steps} steps in one call and, {shift} steps later in an epoch, in short calls"
        self._check("range", what, [(log, StepLog.joined(parts))], second, end, moved.start.step + steps)
        context.check_count(end, first.start.step + steps, f"after {steps} steps in one call")
        self._check_outputs(own, f"{steps} steps in one call")
        self._check_middle(own, second, moved, shift, steps)
        return bool(np.all(np.isfinite(end.params)))

    def _check_middle(self, own: GuardedTrainer, second: GuardedTrainer, run: _Run, shift: int, steps: int) -> None:
        """Check a long call that neither begins nor ends an epoch."""
        context, (order,) = self.context, run.orders
        length = max(SHORT + 1, steps // MIDDLE)
        if steps < length + 2:
            return
        at = shift + int(context.rng.integers(1, steps - length))
        log = self._begin(own, run).run(order, at, at + length)
        what = f"{length} steps from step {at} of an epoch in one call"
        context.check_log(log, order, length, what)
        end = context.state(own, f"after {what}").copied()
        parts = self._short_calls(self._begin(second, run), order, at, at + length)
        what = f"{what} and in short calls"
        self._check("range", what, [(log, StepLog.joined(parts))], second, end, run.start.step + length)

    def check_epochs(self, own: GuardedTrainer, second: GuardedTrainer) -> bool:
        """Check epochs in one call and in a call each; returns False if weights overflow."""
        context, config = self.context, own.config
        n = BATCHES * self.batch
        if config.batch_size is not None:
            n = int(context.rng.integers(2, MOST_STEPS)) * self.batch + self._rest()
        steps = config.steps(n)
        count = max(3, min(self.reach // steps, MOST_EPOCHS))
        orders = [Order(config.seed % 2**32, epoch, n) for epoch in range(count - 1)]  # a run begins so
        last = max(config.epochs, 1) - 1  # does not follow the others
        orders.append(Order(int(context.rng.integers(2**32)), last, n))
        run = self._run(orders)
        logs = _epochs_at_once(context, self._begin(own, run), run.orders)
        end = context.state(own, f"after {count} epochs in one call").copied()
        moved = replace(run, start=self._count(run.start)) if config.steady else run
        self._begin(second, moved)
        pairs = []
        for order, log in zip(run.orders, logs, strict=True):
            context.check_log(log, order, steps, f"one of {count} epochs in one call")
            pairs.append((log, StepLog.joined(self._short_calls(second, self._elsewhere(order), 0, steps))))
        what = f"{count} epochs in one call and one by one"
        self._check("epochs", what, pairs, second, end, moved.start.step + count * steps)
        context.check_count(end, run.start.step + count * steps, f"after {count} epochs in one call")
        self._check_outputs(own, f"{count} epochs in one call")
        return bool(np.all(np.isfinite(end.params)))

    def _check_outputs(self, own: GuardedTrainer, steps: str) -> None:
        """Check outputs of a few samples after a long call."""
        check_outputs_of_state(self.context, own, self.x[:SHORT].copy(), self.scale, steps)

    def _rest(self) -> int:
        """Number of samples of the last batch, partial or full."""
        return int(self.context.rng.integers(rest_of(self.context.net, self.batch, 1), self.batch + 1))

    def _order(self, n: int, has_loss: bool) -> Order:
        """Order of a random epoch, with losses or without, possibly beyond 2^16."""
        rng = self.context.rng
        epoch = self.context.cases.epoch_with_loss(int(np.exp(rng.uniform(0, np.log(2**32 - 2)))))
        return Order(int(rng.integers(2**32)), epoch + (not has_loss), n, bool(rng.integers(4)))

    def _elsewhere(self, order: Order) -> Order:
        """Order of a random later epoch with the same samples and masks, with losses if this one has them."""
        every = self.context.config.loss_every
        most = (2**32 - 1 - order.epoch) // every
        return in_epoch(order, order.epoch + every * int(self.context.rng.integers(min(1, most), most + 1)))

    def _run(self, orders: list[Order]) -> _Run:
        """Run of epochs whose first one trains on the distinct batches in turn."""
        order, n = orders[0], orders[0].n
        which = np.empty(n, np.int64)
        which[order.indices(0, n)] = np.arange(n) % len(self.x)
        y = goals(self.context.net, self.y[which])
        x = np.ascontiguousarray(self.x[which])
        data = Dataset("calls", x, y, x[:1], None if y is None else y[:1], self.scale)
        start = self._count(self.start) if self.context.config.steady else self.start
        if self.context.cases.maker.weighted:
            data = data.but(train_weight=self.weights[which])
        return _Run(data, orders, start)

    def _count(self, state: State) -> State:
        """State with a random number of updates, possibly beyond 2^16."""
        return state.but(step=int(np.exp(self.context.rng.uniform(0, np.log(LATEST)))))

    def _begin(self, trainer: GuardedTrainer, run: _Run) -> GuardedTrainer:
        trainer.load(run.dataset)
        trainer.set_state(run.start)
        return trainer

    def _short_calls(self, trainer: GuardedTrainer, order: Order, first: int, last: int) -> list[StepLog]:
        """Logs of the steps first..last-1 in calls of random lengths."""
        parts = []
        while first < last:
            steps = min(last - first, int(self.context.rng.integers(1, SHORT + 1)))
            parts.append(trainer.run(order, first, first + steps))
            self.context.check_log(parts[-1], order, steps, f"{steps} steps from step {first}")
            first += steps
        return parts

    def _check(
        self,
        check: str,
        what: str,
        logs: list[tuple[StepLog, StepLog]],
        trainer: GuardedTrainer,
        end: State,
        count: int,
    ) -> None:
        mine, others = [log for log, _ in logs], [log for _, log in logs]
        check_equal(self.context, check, what, (others, mine), trainer, end.but(step=count))


def _epochs_at_once(context: ProofContext, trainer: GuardedTrainer, orders: list[Order]) -> list[StepLog]:
    """Logs of epochs in one call, checked to be as many as the epochs."""
    logs = trainer.run_epochs(orders)
    whole = isinstance(logs, list) and len(logs) == len(orders)
    context.ledger.holds(
        "epochs", whole, f"epochs: {len(orders)} epochs in one call do not give a list of as many logs"
    )
    return list(logs)
