"""What a contender does when its repetitions are timed: a test pass, and without a clock its fastest repetition again,
and the training that is left.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..nets import CrossEntropyLoss
from ..train import Score, score
from ..trainers.base import State, StepLog
from .entry import Contender, Refused, clocked, finite, log_bits
from .task import Task, train_in_calls


def time_test(each: Contender) -> None:
    """Time one pass over the test samples; where the timed steps were all the training that is wanted, take its
    accuracy from there.

    The second of two passes counts, since the first compiles and takes memory. For a net that is not trained to the
    end, a long pass is left out.
    """
    trainer, task = each.trainer, each.task
    assert trainer is not None
    with each.guarded("test"):
        each.found["spans"] = {name: float(seconds) for name, seconds in trainer.spans().items()}
        each.found["held_bytes"] = {name: int(size) for name, size in trainer.memory().items()}
        if not task.scored:
            return
        if not _testable(task):
            missing = "the test set has no labels" if len(task.data.test_x) else "there is no test set"
            each.remark(f"no test accuracy: {missing}")
            return
        if not each.affordable and each.test_pass >= task.budget:
            return
        done, state = each.trained()
        trainer.set_state(state)
        for _ in range(2):
            seconds, result = clocked(partial(score, trainer, task.data.test_x, task.data.test_y, task.data.scale))
            if seconds >= task.budget:
                break
        each.found["test_seconds"] = seconds
        if done == task.epochs:
            _scored(each, result)


def replay(each: Contender) -> None:
    """Train the fastest repetition again in a new trainer, without a clock, compare every bit, and train on for the
    test accuracy.

    Work left out makes a repetition faster: what one of them gains by it, the fastest shows.
    """
    each.close()
    task = each.task
    number = int(np.argmin(each.seconds))
    start = each.ends[number - 1] if number else task.start()
    with each.guarded("repeated steps"), each.rung.build(task.net, task.config, start) as trainer:
        trainer.load(task.data)
        logs = each.repetition(trainer, number)
        _compare(each, number, logs, trainer.state())
        each.repeated = True
        done, state = each.trained()
        if not task.scored or done == task.epochs:
            return
        if not each.affordable:
            each.remark(
                f"not trained for its accuracy: {task.epochs} epoch{'s' * (task.epochs != 1)} would take about {each.training() / 60:.1f} min more"
            )
            return
        trainer.set_state(state)
        for first in range(done, task.epochs, each.plan.epochs):
            orders = [task.order(epoch) for epoch in range(first, min(first + each.plan.epochs, task.epochs))]
            # Processes are weighed beside this: an epoch is said to take what the timed ones took.
            each.note(
                first,
                train_in_calls(trainer, task.config, orders, task.steps),
                len(orders) * each.timing().seconds_per_epoch,
            )
        if _testable(task):
            _scored(each, score(trainer, task.data.test_x, task.data.test_y, task.data.scale))


def _compare(each: Contender, number: int, logs: list[StepLog], state: State) -> None:
    same = log_bits(logs) == each.logs[number] and state.bits() == each.ends[number].bits()
    each.found["same_bits"] = same
    if each.exact and not same:
        raise Refused(
            f"the timed run does not end in the bits of an untimed run of the same steps (repetition {number + 1})"
        )


def _testable(task: Task) -> bool:
    data = task.data
    return len(data.test_x) > 0 and (data.test_y is not None or not isinstance(task.net.loss, CrossEntropyLoss))


def _scored(each: Contender, result: Score) -> None:
    """Note how the net does on the test samples after all epochs."""
    if not math.isfinite(result.loss):
        each.remark("the test loss is not finite: training diverged")
    labelled = isinstance(each.task.net.loss, CrossEntropyLoss)
    each.found |= {
        "trained_epochs": each.task.epochs,
        "test_loss": finite(result.loss),
        "test_accuracy": finite(result.accuracy) if labelled else None,
    }
