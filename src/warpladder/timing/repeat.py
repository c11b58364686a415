"""Work after an entry's timed repetitions: a test pass; then, untimed, its fastest repetition again and the rest of the
training.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np

from ..nets import CrossEntropyLoss
from ..train import Score, score
from ..trainers.base import State, StepLog, Trainer
from .entry import TimedEntry, finite
from .foreign.trainer import ForeignTrainer
from .measure import clocked, log_bits, logs_of, note_epochs, repetition
from .task import ClimbTask, train_in_calls
from .turn import Refused, StepRange, Turn, changed, drawn_index, drawn_ranges, epoch_logs
from .witness_losses import LOST, SECONDS, check_losses
from .witness_outputs import WatchedOutputs, check_outputs
from .witness_weights import PROBE_STEPS, Probe, check_weights

#: Places of a replay at which the weights of a few steps are compared.
PROBES = 3


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
        if entry.is_outside:
            entry.found["test_seconds"] = _drawn_test_seconds(entry, trainer)
            if done == task.epochs:
                _scored(entry, _watched_score(entry, trainer, state))
            return
        trainer.set_state(state)
        for _ in range(2):
            seconds, result = clocked(partial(_scored_at, trainer, task))
            if seconds >= task.budget:
                break
        entry.found["test_seconds"] = seconds
        if done == task.epochs:
            _scored(entry, result)


def _drawn_test_seconds(entry: TimedEntry, trainer: Trainer) -> float:
    """Seconds of the second of two passes over the test samples by a rung from a user's file, each at a state that is
    drawn anew, so that it cannot have kept or prepared its answers. They are compared with array code's.
    """
    task = entry.task
    for _ in range(2):
        start, watched = changed(task.start()), WatchedOutputs(trainer, len(task.data.test_x))
        seconds, _ = clocked(partial(_scored_at, watched, task, start))
        check_outputs(entry.rung, task, start, watched)
    return seconds


def _watched_score(entry: TimedEntry, trainer: Trainer, start: State | None = None) -> Score:
    """Score on the test samples of a rung from a user's file, whose outputs are compared with array code's."""
    watched = WatchedOutputs(trainer, len(entry.task.data.test_x))
    result = _scored_at(watched, entry.task, start)
    check_outputs(entry.rung, entry.task, trainer.state() if start is None else start, watched)
    return result


def _scored_at(trainer: Trainer, task: ClimbTask, start: State | None = None) -> Score:
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
            logs, tail = _replay_turn(entry, trainer, number)
            if number == fastest and entry.is_outside:
                _check_fastest(entry, number, logs, tail)
            for probe in tail.probes if tail is not None else ():
                if spent < SECONDS:
                    began = process_time()
                    check_weights(entry.rung, task, probe)
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
            _scored(entry, _watched_score(entry, trainer) if entry.is_outside else _scored_at(trainer, task))


def _check_fastest(entry: TimedEntry, number: int, logs: list[StepLog], tail: _Tail | None) -> None:
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
    assert tail is not None
    check_losses(entry.rung, task, tail.turn, tail.logs, steps, tail.first)


@dataclass(frozen=True)
class _Tail:
    """End of a repetition, from a state within it.

    turn : that state, and the orders of the epochs from it on.
    first : step of the first of these epochs at which the tail begins.
    logs : log of each of these epochs, from that step on.
    probes : a few steps each, at drawn places of the whole repetition.
    """

    turn: Turn
    first: int
    logs: list[StepLog]
    probes: list[Probe]


def _replay_turn(entry: TimedEntry, trainer: Trainer, number: int) -> tuple[list[StepLog], _Tail | None]:
    """Train a timed repetition again, untimed, and compare its bits; return the logs of its epochs, and a tail of
    it for a rung from a user's file.
    """
    turn, tail = entry.turns[number], None
    if entry.is_outside:
        logs, state, tail = _replay_in_calls(trainer, turn, entry.plan.steps, max(entry.seconds))
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
    return logs, tail


def _replay_in_calls(trainer: Trainer, turn: Turn, steps: int, seconds: float) -> tuple[list[StepLog], State, _Tail]:
    """Train the first `steps` steps of a turn's epochs in calls of drawn lengths; return the logs of the epochs, the
    state, and the tail from a drawn probe on.
    """
    ranges = drawn_ranges(turn, steps)
    chosen = drawn_index(ranges)
    probed = {chosen, *(drawn_index(ranges) for _ in range(PROBES - 1))}
    groups = _groups(ranges, probed)
    calls = [call for group in groups for call in group.calls]
    state, logs, probes = turn.start, list[StepLog](), list[Probe]()
    tail_probe = sorted(probed).index(chosen)
    for group in groups:
        before = state
        if group.is_probe and len(probes) == tail_probe:
            tail_begins = len(logs)  # each call has a log
        if group.calls:
            more, state = _in_calls(trainer, Turn(before, turn.orders), group.calls, seconds)
            logs += more
        if group.is_probe:
            assert before is not None and state is not None
            probes.append(Probe(before, group.calls[0], state))
    assert state is not None
    begin = calls[tail_begins]
    rest = Turn(probes[tail_probe].before, turn.orders[turn.orders.index(begin.order) :])
    tail = _Tail(rest, begin.first, epoch_logs(calls[tail_begins:], logs[tail_begins:]), probes)
    return epoch_logs(calls, logs), state, tail


@dataclass(frozen=True)
class _Group:
    """Consecutive calls of a replay, between which no state is read.

    is_probe : True for one call of at most PROBE_STEPS steps, whose weights are compared.
    """

    calls: list[StepRange]
    is_probe: bool = False


def _groups(ranges: Sequence[StepRange], probed: Container[int]) -> list[_Group]:
    """Calls for these ranges; each range whose index is in `probed` begins with a probe of 1 to PROBE_STEPS steps."""
    groups = [_Group([])]
    for index, steps in enumerate(ranges):
        first = steps.first
        if index in probed:
            first = min(steps.last, first + 1 + secrets.randbelow(PROBE_STEPS))
            groups += [_Group([steps._replace(last=first)], is_probe=True), _Group([])]
        if first < steps.last:
            groups[-1].calls.append(steps._replace(first=first))
    return groups


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


def _in_calls(trainer: Trainer, turn: Turn, calls: Sequence[StepRange], seconds: float) -> tuple[list[StepLog], State]:
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
