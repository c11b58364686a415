"""Work after an entry's timed repetitions: a test pass; then, untimed, its fastest repetition again and the rest of the
training.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np

from ..data.order import Order
from ..nets import CrossEntropyLoss
from ..train import Score, score
from ..trainers.base import State, StepLog, Trainer
from .entry import TimedEntry, finite
from .foreign.trainer import ForeignTrainer
from .measure import clocked, log_bits, logs_of, note_epochs, repetition
from .task import ClimbTask, train_in_calls
from .turn import Refused, Turn, changed, cut_calls, drawn_call, joined
from .witness_losses import LOST, SECONDS, check_losses
from .witness_weights import MOST, Walk, check_weights

#: Places of a replay from which the weights of a few steps are compared.
WALKS = 3


def time_test(entry: TimedEntry, allowance: float = math.inf) -> None:
    """Time one pass over the test samples, and store the accuracy if the timed steps were all of the training.

    The second of two passes is timed, since the first compiles and allocates. A pass that is longer than the budget is
    left out for a net that is not trained to the end.

    allowance : most seconds of the passes by the estimate.
    """
    trainer, task = entry.trainer, entry.task
    assert trainer is not None
    with entry.guarded("test"):
        entry.found["spans"] = {name: float(seconds) for name, seconds in trainer.spans().items()}
        entry.found["held_bytes"] = {name: int(size) for name, size in trainer.memory().items()}
        if not task.is_scored:
            return
        if not _testable(task):
            missing = "the test set has no labels" if len(task.data.test_x) else "there is no test set"
            entry.remark(f"no test accuracy: {missing}")
            return
        if entry.tests > allowance:
            entry.remark("no time was left for a test pass")
        if not 0 < entry.tests <= allowance:
            return
        done, state = entry.trained()
        # a rung from a user's file could have kept its first answers
        starts = [changed(state), state] if entry.is_outside else [None, None]
        trainer.set_state(state)
        for start in starts:
            seconds, result = clocked(partial(_scored_at, trainer, task, start))
            if seconds >= task.budget and not entry.is_outside:
                break
        entry.found["test_seconds"] = seconds
        if done == task.epochs:
            _scored(entry, result)


def _scored_at(trainer: Trainer, task: ClimbTask, start: State | None) -> Score:
    """Score on the test samples at a state, or at the present one."""
    if start is not None:
        trainer.set_state(start)
    return score(trainer, task.data.test_x, task.data.test_y, task.data.scale)


def replay(entry: TimedEntry) -> None:
    """Train the fastest repetition again in a new trainer, compare every bit, and train on for the test accuracy.

    A repetition that leaves out work is faster: so the fastest is compared. For a rung from a user's file all are
    compared, in a new process and with calls of other lengths.
    """
    entry.end()
    task = entry.task
    with entry.guarded("repeated steps"), entry.rung.build(task.net, task.config, task.start()) as trainer:
        trainer.load(task.data)
        fastest, spent = int(np.argmin(entry.seconds)), 0.0
        for number in range(len(entry.seconds)) if entry.is_outside else [fastest]:
            logs, stretch = _replay_turn(entry, trainer, number)
            if number == fastest and entry.is_outside:
                _check_fastest(entry, number, logs, stretch)
            for walk in stretch.walks if stretch is not None else ():
                if spent < SECONDS:
                    began = process_time()
                    check_weights(entry.rung, task, walk)
                    spent += process_time() - began
        entry.is_repeated = True
        done, state = entry.trained()
        if not task.is_scored or done == task.epochs:
            return
        if not entry.is_affordable:
            entry.remark(
                f"not trained for its accuracy: {task.epochs} epoch{'s' * (task.epochs != 1)} would take about "
                f"{entry.training() / 60:.1f} min more"
            )
            return
        trainer.set_state(state)
        for first in range(done, task.epochs, entry.plan.epochs):
            orders = [task.order(epoch) for epoch in range(first, min(first + entry.plan.epochs, task.epochs))]
            # Other processes run meanwhile, so an epoch's seconds are taken from the timed repetitions.
            note_epochs(
                entry,
                first,
                train_in_calls(trainer, task.config, orders, task.steps),
                len(orders) * entry.timing().seconds_per_epoch,
            )
        if _testable(task):
            _scored(entry, score(trainer, task.data.test_x, task.data.test_y, task.data.scale))


def _check_fastest(entry: TimedEntry, number: int, logs: list[StepLog], stretch: _Stretch | None) -> None:
    """Compare losses of the fastest repetition of a rung from a user's file with array code's.

    With equal bits the untimed logs are the timed ones. Else the timed logs are compared, and their mean with that of
    the untimed ones.
    """
    task, turn, steps = entry.task, entry.turns[number], entry.plan.steps
    if not entry.is_exact:
        untimed, logs = logs, logs_of(entry.logs[number], turn, steps, task.config)
        means = [
            float(np.mean(np.concatenate([log.loss for log in each] or [np.zeros(0)]))) for each in (logs, untimed)
        ]
        if not abs(means[0] - means[1]) <= LOST * abs(means[1]) and any(log.has_loss for log in logs):
            raise Refused(
                f"the timed steps have a mean loss of {means[0]:.4g}, the same steps untimed of {means[1]:.4g}: it "
                "does not train the required steps"
            )
    check_losses(entry.rung, task, turn, logs, steps)
    assert stretch is not None
    check_losses(entry.rung, task, stretch.turn, stretch.logs, steps, stretch.first)


@dataclass(frozen=True)
class _Stretch:
    """End of a repetition: the turn from a state within it, step `first` of its first epoch, and its logs.

    walks : a few steps from drawn states of the whole repetition.
    """

    turn: Turn
    first: int
    logs: list[StepLog]
    walks: list[Walk]


def _replay_turn(entry: TimedEntry, trainer: Trainer, number: int) -> tuple[list[StepLog], _Stretch | None]:
    """Train a timed repetition again, untimed, and compare its bits; return the logs of its epochs, and a stretch of
    it for a rung from a user's file.
    """
    turn, stretch = entry.turns[number], None
    if entry.is_outside:
        logs, state, stretch = _replay_in_calls(trainer, turn, entry.plan.steps, max(entry.seconds))
        how = ", in calls that end elsewhere"
    else:
        start = entry.ends[number - 1] if number else entry.task.start()
        trainer.set_state(start.copied())
        (logs, state), how = repetition(entry, trainer, turn), ""
    same = log_bits(logs) == entry.logs[number] and state.bits() == entry.ends[number].bits()
    entry.found["same_bits"] = same and entry.found.get("same_bits", True)
    if entry.is_exact and not same:
        raise Refused(
            f"the timed run does not end in the bits of an untimed run of the same steps{how} (repetition {number + 1})"
        )
    if entry.is_outside and not same:
        _compare_size(entry.ends[number], state, turn)
    return logs, stretch


def _replay_in_calls(trainer: Trainer, turn: Turn, steps: int, seconds: float) -> tuple[list[StepLog], State, _Stretch]:
    """Train the first `steps` steps of a turn's epochs in calls of drawn lengths; return the logs of the epochs, the
    state, and the stretch from a drawn call on.
    """
    drawn = cut_calls(turn, steps)
    at = drawn_call(drawn)
    walked = {at, *(drawn_call(drawn) for _ in range(WALKS - 1))}
    pieces: list[list[tuple[Order, int, int]]] = [[]]
    for index, (order, first, last) in enumerate(drawn):
        if index not in walked:
            pieces[-1].append((order, first, last))
            continue
        middle = min(last, first + 1 + secrets.randbelow(MOST))
        pieces += [[(order, first, middle)], [(order, middle, last)] if middle < last else []]
        if index == at:
            begins, chosen = sum(map(len, pieces[:-2])), len(pieces) // 2 - 1
    state, logs, walks = turn.start, list[StepLog](), list[Walk]()
    for number, piece in enumerate(pieces):
        before = state
        if piece:
            more, state = _in_calls(trainer, Turn(before, turn.orders), piece, seconds)
            logs += more
        if number % 2:
            assert before is not None and state is not None
            walks.append(Walk(before, piece[0], state))
    assert state is not None
    calls = [call for piece in pieces for call in piece]
    order, first, _ = calls[begins]
    rest = Turn(walks[chosen].before, turn.orders[turn.orders.index(order) :])
    return joined(calls, logs), state, _Stretch(rest, first, joined(calls[begins:], logs[begins:]), walks)


def _compare_size(timed: State, replayed: State, turn: Turn) -> None:
    """Raise `Refused` if a rung with deviations moved the weights much less or more than an untimed run."""
    assert turn.start is not None
    before = turn.start.params.astype(np.float64)
    moved, wanted = (float(np.linalg.norm(state.params - before)) for state in (timed, replayed))
    if not wanted / 2 <= moved <= 2 * wanted:
        raise Refused(
            f"the timed steps moved the weights by {moved:.3g}, the same steps untimed by {wanted:.3g}: it does not "
            "train the required steps"
        )


def _in_calls(
    trainer: Trainer, turn: Turn, calls: list[tuple[Order, int, int]], seconds: float
) -> tuple[list[StepLog], State]:
    """Logs and state of ranges of steps, each trained by its own call."""
    if isinstance(trainer, ForeignTrainer):
        return trainer.cut(turn.start, calls, seconds)
    assert turn.start is not None
    trainer.set_state(turn.start.copied())
    return [trainer.run(*call) for call in calls], trainer.state()


def _testable(task: ClimbTask) -> bool:
    data = task.data
    return len(data.test_x) > 0 and (data.test_y is not None or not isinstance(task.net.loss, CrossEntropyLoss))


def _scored(entry: TimedEntry, result: Score) -> None:
    """Store the test loss and accuracy after all epochs."""
    if not math.isfinite(result.loss):
        entry.remark("the test loss is not finite: training diverged")
    labelled = isinstance(entry.task.net.loss, CrossEntropyLoss)
    entry.found |= {
        "trained_epochs": entry.task.epochs,
        "test_loss": finite(result.loss),
        "test_accuracy": finite(result.accuracy) if labelled else None,
    }
