"""After an entry's timed repetitions: a test pass; then, without a clock, its fastest repetition again and the rest of
the training.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..nets import CrossEntropyLoss
from ..train import Score, score
from ..trainers.base import State, StepLog
from .entry import Refused, TimedEntry, finite
from .measure import clocked, log_bits, note_epochs, repetition
from .task import ClimbTask, train_in_calls


def time_test(entry: TimedEntry) -> None:
    """Time one pass over the test samples, and take the accuracy if the timed steps were all of the training.

    The second of two passes counts, since the first compiles and takes memory. A pass that is longer than the budget
    is left out for a net that is not trained to the end.
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
        if not entry.is_affordable and entry.test_pass >= task.budget:
            return
        done, state = entry.trained()
        trainer.set_state(state)
        for _ in range(2):
            seconds, result = clocked(partial(score, trainer, task.data.test_x, task.data.test_y, task.data.scale))
            if seconds >= task.budget:
                break
        entry.found["test_seconds"] = seconds
        if done == task.epochs:
            _scored(entry, result)


def replay(entry: TimedEntry) -> None:
    """Train the fastest repetition again in a new trainer, compare every bit, and train on for the test accuracy.

    A repetition that leaves out work is faster: so the fastest is compared.
    """
    entry.close()
    task = entry.task
    number = int(np.argmin(entry.seconds))
    start = entry.ends[number - 1] if number else task.start()
    with entry.guarded("repeated steps"), entry.rung.build(task.net, task.config, start) as trainer:
        trainer.load(task.data)
        logs = repetition(entry, trainer, number)
        _compare(entry, number, logs, trainer.state())
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
            # Other processes run meanwhile: an epoch's seconds are those of the timed ones.
            note_epochs(
                entry,
                first,
                train_in_calls(trainer, task.config, orders, task.steps),
                len(orders) * entry.timing().seconds_per_epoch,
            )
        if _testable(task):
            _scored(entry, score(trainer, task.data.test_x, task.data.test_y, task.data.scale))


def _compare(entry: TimedEntry, number: int, logs: list[StepLog], state: State) -> None:
    same = log_bits(logs) == entry.logs[number] and state.bits() == entry.ends[number].bits()
    entry.found["same_bits"] = same
    if entry.is_exact and not same:
        raise Refused(
            f"the timed run does not end in the bits of an untimed run of the same steps (repetition {number + 1})"
        )


def _testable(task: ClimbTask) -> bool:
    data = task.data
    return len(data.test_x) > 0 and (data.test_y is not None or not isinstance(task.net.loss, CrossEntropyLoss))


def _scored(entry: TimedEntry, result: Score) -> None:
    """Note how the net does on the test samples after all epochs."""
    if not math.isfinite(result.loss):
        entry.remark("the test loss is not finite: training diverged")
    labelled = isinstance(entry.task.net.loss, CrossEntropyLoss)
    entry.found |= {
        "trained_epochs": entry.task.epochs,
        "test_loss": finite(result.loss),
        "test_accuracy": finite(result.accuracy) if labelled else None,
    }
