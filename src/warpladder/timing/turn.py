"""`Turn`: the work of one timed repetition. For a rung from a user's file it is drawn just before the clock starts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..data.order import Order
from ..errors import WarpladderError
from ..trainers.base import State, StepLog
from .task import ClimbTask

#: Largest relative change of each weight at the start of a turn: training continues, but no earlier result fits.
CHANGE = 2.0**-10

#: Most ranges into which an untimed replay divides an epoch of a turn.
RANGES = 24

#: Further ranges of one or two steps at drawn places of an epoch.
SHORT = 4


class Refused(WarpladderError):
    """Error: a measured time is refused."""


@dataclass(frozen=True)
class Turn:
    """Work of a timed repetition.

    start : state at which it begins; None for the trainer's present state.
    orders : order of the samples in each epoch.
    """

    start: State | None
    orders: list[Order]


class StepRange(NamedTuple):
    """Steps `first` to `last` - 1 of an epoch, as one call of `Trainer.run` trains them. order : of its samples."""

    order: Order
    first: int
    last: int


def fresh_turn(task: ClimbTask, before: State, first: int, epochs: int) -> Turn:
    """Turn that a rung could not know before: sample orders of a new seed, and weights near the end of the turn before.

    first : number of its first epoch; it decides if losses are computed.
    """
    seed = secrets.randbits(32)
    return Turn(changed(before), [replace(task.order(epoch), seed=seed) for epoch in range(first, first + epochs)])


def changed(state: State) -> State:
    """State each of whose weights is changed by up to CHANGE of itself: no result for the state itself fits it."""
    drawn = np.random.default_rng(secrets.randbits(128)).uniform(-CHANGE, CHANGE, len(state.params))
    return state.copied().but(params=(state.params * (1 + drawn)).astype(state.params.dtype))


def drawn_ranges(turn: Turn, steps: int) -> list[StepRange]:
    """Ranges that cover the first `steps` steps of each epoch, with other ends than the timed calls.

    The lengths are drawn: single steps and long ranges.
    """
    rng = np.random.default_rng(secrets.randbits(128))
    ranges = []
    for order in turn.orders:
        count = min(RANGES, max(1, steps - 1))
        lengths = np.exp(rng.uniform(0, np.log(max(2, steps)), count)).astype(int)
        stops = np.minimum(np.cumsum(np.maximum(1, lengths)), steps)
        if steps > 1:
            stops = np.append(stops, int(rng.integers(1, steps)))
        # short calls anywhere in an epoch: a rung that is right only in short calls differs in the long ones
        alone = rng.integers(0, steps, SHORT)
        stops = np.concatenate([stops, alone, np.minimum(alone + rng.integers(1, 3, SHORT), steps)])
        edges = np.unique([0, *stops.tolist(), steps]).tolist()
        ranges += [StepRange(order, first, last) for first, last in pairwise(edges)]
    return ranges


def drawn_index(ranges: Sequence[StepRange]) -> int:
    """Index of the range that contains a step drawn uniformly from all steps."""
    ends = np.cumsum([last - first for _, first, last in ranges])
    return int(np.searchsorted(ends, secrets.randbelow(int(ends[-1])), side="right")) if ends[-1] else 0


def epoch_logs(calls: Sequence[StepRange], logs: Sequence[StepLog]) -> list[StepLog]:
    """Log of each epoch, joined from the log of each call."""
    parts: dict[Order, list[StepLog]] = {}
    for (order, _, _), log in zip(calls, logs, strict=True):
        parts.setdefault(order, []).append(log)
    return [StepLog.joined(each) for each in parts.values()]


def copied(log: StepLog) -> StepLog:
    """Copy of a log with plain arrays: numbers that are computed when read are computed here."""
    loss, correct, size = (np.array(part, subok=False) for part in (log.loss, log.correct, log.size))
    return StepLog(loss, correct, size, has_loss=log.has_loss)


def check_log(log: StepLog, expected: np.ndarray | None, steps: int, has_loss: bool, epoch: int) -> None:
    """Raise `Refused` if a log does not show the required work, or has values that no training gives.

    expected : (steps,) number of samples of each batch; None for a peer that trains other batches.
    """
    where = f"of epoch {epoch + 1}"
    if log.has_loss is not has_loss:
        raise Refused(f"the timed steps {where} have {'losses' if log.has_loss else 'no losses'}, unlike the settings")
    is_counted = isinstance(log.size, np.ndarray) and log.size.dtype == np.int64
    if expected is not None and is_counted and not np.array_equal(log.size, expected):
        raise Refused("the timed steps did not train the required batches")
    parts = (("size", steps, np.int64), ("loss", steps * has_loss, np.float64), ("correct", steps * has_loss, np.int64))
    for name, count, kind in parts:
        array = getattr(log, name)
        if expected is None and name == "size":
            count = array.size
        if not isinstance(array, np.ndarray) or array.shape != (count,) or array.dtype != kind:
            raise Refused(f"the log {where} is impossible: {name} wants {count} numbers of type {np.dtype(kind)}")
    if not np.all(log.size > 0):
        raise Refused(f"the log {where} is impossible: a batch of {int(log.size.min())} samples")
    if has_loss and not np.isfinite(log.loss).all():
        step = int(np.flatnonzero(~np.isfinite(log.loss))[0])
        raise Refused(f"the loss is not finite at step {step}: try a smaller learning rate")
    if has_loss and not (np.all(log.correct >= 0) and np.all(log.correct <= log.size[: len(log.correct)])):
        step = int(np.flatnonzero((log.correct < 0) | (log.correct > log.size))[0])
        raise Refused(
            f"the log {where} is impossible: {log.correct[step]} correct samples of {log.size[step]} at step {step}"
        )
