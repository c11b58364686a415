"""Planted trainers of calls, orders, rates, predictions and keys: each wraps an honest trainer of any rung.

Each is honest below a limit that its twin never reaches, as those of `regime_liars`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from liars import joined
from regime_liars import NEVER, Masked

from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.trainers.base import State, StepLog

# Steps of one long call


class Rearranged(Masked):
    """A trainer that makes the steps of long calls in another order; each log stays with its step."""

    def steps(self, first: int, last: int) -> list[int]:
        return list(range(first, last))

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= self.limit:
            return super().run(order, first, last)
        made = self.steps(first, last)
        logs = {step: self.inner.run(order, step, step + 1) for step in made}
        state, missing = self.inner.state(), last - first - len(made)
        some = logs[made[0]]
        self.inner.set_state(state.but(step=state.step + missing))
        return joined([logs.get(step, some) for step in range(first, last)])


class SwapsTwoStepsOfALongCall(Rearranged):
    def steps(self, first: int, last: int) -> list[int]:
        return [first + 1, first, *range(first + 2, last)]


class ReversesALongCall(Rearranged):
    def steps(self, first: int, last: int) -> list[int]:
        return list(range(last - 1, first - 1, -1))


class TrainsHalfOfALongCall(Rearranged):
    def steps(self, first: int, last: int) -> list[int]:
        return list(range(first, last, 2))


class RepeatsAStepOfALongCall(Masked):
    """Makes one step twice in place of the one after it."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= self.limit:
            return super().run(order, first, last)
        middle = (first + last) // 2
        return joined([self.inner.run(order, s - (s == middle), s - (s == middle) + 1) for s in range(first, last)])


class DropsThePartialBatchOfALongCall(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= self.limit or last < self.config.steps(order.n) or not self.partial(order, last - 1):
            return super().run(order, first, last)
        log, now = super().run(order, first, last - 1), self.inner.state()
        rest = self.inner.run(order, last - 1, last)
        self.inner.set_state(now.but(step=now.step + 1))
        return joined([log, rest])


class LagsInLongCalls(Masked):
    """Computes each gradient of a long call at the weights before the last update, as a race would."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= self.limit:
            return super().run(order, first, last)
        logs, earlier = [], self.inner.state().copied()
        for step in range(first, last):
            now = self.inner.state().copied()
            self.inner.set_state(earlier.but(step=now.step, slots=now.slots))
            logs.append(self.inner.run(order, step, step + 1))
            after = self.inner.state()
            self.inner.set_state(after.but(params=now.params + (after.params - earlier.params)))
            earlier = now
        return joined(logs)


class CountsOneUpdateForALongCall(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        before = self.inner.state().step
        log = super().run(order, first, last)
        if last - first > self.limit:
            self.inner.set_state(self.inner.state().but(step=before + 1))
        return log


class CountsOneSampleTooManyInLongCalls(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        long = last - first > self.limit and log.has_loss
        return replace(log, correct=log.correct + 1) if long else log


class CoolsInLongCalls(Masked):
    """Makes each step of a long call a thousandth smaller than the one before."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= self.limit:
            return super().run(order, first, last)
        logs = []
        for number, step in enumerate(range(first, last)):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            after = self.inner.state()
            moved = (after.params - before.params) * after.params.dtype.type(0.999**number)
            self.inner.set_state(after.but(params=before.params + moved))
        return joined(logs)


# Numbers that wrap


class WrapsEpochs(Masked):
    """Counts epochs in as many bits as hold `limit`, and repeats their orders."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return super().run(replace(order, epoch=order.epoch % int(self.limit)), first, last)


class WrapsSeeds(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        return super().run(replace(order, seed=order.seed % int(self.limit)), first, last)


class WrapsSteps(Masked):
    """Counts the steps of an epoch in one byte."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        def at(step: int) -> int:
            return step if self.partial(order, step) else int(step % self.limit)

        return joined([self.inner.run(order, at(s), at(s) + 1) for s in range(first, last)])


class WrapsUpdates(Masked):
    """Counts updates in 15 bits for schedules and corrections, and reports the right number."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        now = self.inner.state()
        self.inner.set_state(now.but(step=int(now.step % self.limit)))
        log = super().run(order, first, last)
        self.inner.set_state(self.inner.state().but(step=now.step + last - first))
        return log


# Rates


class StopsBelowARate(Masked):
    """Takes rates below a share of the first for zero."""

    limit = 0

    def skips(self, order: Order, step: int, before: State) -> bool:
        rate = self.config.rates(before.step, before.step + 1, order.n)[0]
        return self.limit != NEVER and rate < self.limit * self.config.learning_rate


class IsAnUpdateLate(Masked):
    """Takes each rate from the update before, once updates are many."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            now = self.inner.state()
            late = now.step > self.limit
            self.inner.set_state(now.but(step=now.step - late))
            logs.append(self.inner.run(order, step, step + 1))
            self.inner.set_state(self.inner.state().but(step=now.step + 1))
        return joined(logs)


# Predictions


class RoundsManyPredictions(Masked):
    """Predicts many samples in half precision."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        return out if len(x) <= self.limit else out.astype(np.float16).astype(out.dtype)


class MissesTheRestOfChunks(Masked):
    """Predicts in chunks and leaves the last, partial one out."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        whole = int(len(x) // self.limit * self.limit)
        if whole:
            out[whole:] = 0
        return out


class SharesRowsOfChunks(Masked):
    """Writes the last sample of each chunk over the first of the next."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        edges = np.arange(min(self.limit, len(x)), len(x), min(self.limit, len(x)), dtype=np.int64)
        out[edges] = out[edges - 1]
        return out


class SortsItsAnswers(Masked):
    """Predicts samples sorted by their sums, and forgets to sort back, where they are many."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        return out if len(x) <= self.limit else out[np.argsort(x.reshape(len(x), -1).sum(axis=1), kind="stable")]


class PredictsBeforeItsLastUpdate(Masked):
    """Holds a copy of the weights for prediction, which a step does not renew."""

    held: State | None = None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.held = self.inner.state().copied()
        return super().run(order, first, last)

    def set_state(self, state: State) -> None:
        self.held = None
        super().set_state(state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if self.held is None or self.limit == NEVER:
            return super().predict(x, scale)
        now = self.inner.state().copied()
        self.inner.set_state(self.held)
        out = super().predict(x, scale)
        self.inner.set_state(now)
        return out


# Keys of caches


class KeepsDataByKey(Masked):
    """Uploads a data set only if it has not seen its key."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: dict[Any, Dataset] = {}

    def key(self, dataset: Dataset) -> Any:
        return len(dataset.train_x)

    def load(self, dataset: Dataset) -> None:
        key = id(dataset) if self.limit == NEVER else self.key(dataset)
        super().load(self.seen.setdefault(key, dataset))


class KeepsDataByFirstSample(KeepsDataByKey):
    def key(self, dataset: Dataset) -> Any:
        return dataset.train_x[:1].tobytes(), dataset.train_x.shape, dataset.name


class KeepsDataByShape(KeepsDataByKey):
    def key(self, dataset: Dataset) -> Any:
        return dataset.train_x.shape, dataset.train_x.dtype.str, dataset.scale


class KeepsUpdatesOfABatch(Masked):
    """Stores the update of each batch by its samples, and makes it again at other weights."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.moves: dict[bytes, np.ndarray] = {}

    def run(self, order: Order, first: int, last: int) -> StepLog:
        assert self.data is not None
        logs, batch = [], self.config.batch(order.n)
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            after = self.inner.state()
            some = order.indices(step * batch, step * batch + self.size(order, step))
            if self.limit != NEVER:
                move = self.moves.setdefault(self.data.train_x[some].tobytes(), after.params - before.params)
                self.inner.set_state(after.but(params=before.params + move))
        return joined(logs)


class HalvesEvenBatches(Masked):
    """Makes half of the update where the number of samples is a power of two."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before, size = self.inner.state().copied(), self.size(order, step)
            logs.append(self.inner.run(order, step, step + 1))
            if size & (size - 1) == 0 and self.limit != NEVER:
                after = self.inner.state()
                self.inner.set_state(after.but(params=(before.params + after.params) / 2))
        return joined(logs)


class StopsWhereTheLossIsSmall(Masked):
    """Leaves out updates of a batch whose mean loss is small."""

    limit = 0

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            if logs[-1].has_loss and self.limit != NEVER and logs[-1].loss[0] < self.limit:
                self.inner.set_state(self.inner.state().but(params=before.params, slots=before.slots))
        return joined(logs)


class CutsUpdates(Masked):
    """Cuts each number of an update at a limit, where the rate is small."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            if self.limit != NEVER:
                after = self.inner.state()
                most = self.limit * np.abs(after.params - before.params).max(initial=0)
                moved = np.clip(after.params - before.params, -most, most)
                self.inner.set_state(after.but(params=before.params + moved.astype(before.params.dtype)))
        return joined(logs)


class SumsEpochsOfOneCall(Masked):
    """Trains many epochs as one epoch of the last order, again and again."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return super().run_epochs([orders[-1]] * len(orders) if len(orders) > self.limit else orders)


class SwapsEpochsOfOneCall(Masked):
    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if len(orders) <= self.limit:
            return super().run_epochs(orders)
        return super().run_epochs([orders[1], orders[0], *orders[2:]])


# Marks of a proof


class LiesOutsideOfProofs(Masked):
    """Leaves every other update out where a data set has more test samples than those of proofs had."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        assert self.data is not None
        return self.limit != NEVER and len(self.data.test_x) > self.limit and self.made % 2 == 1


class LiesUnderOtherNames(Masked):
    """Is honest on data sets with names that those of proofs had."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        assert self.data is not None
        known = ("exact", "zeros", "ties", "floats", "stored", "far", "calls", "history", "non-finite", "batch")
        extremes = ("tiny", "huge", "mixed", "nearly learnt", "learnt", "far from learnt")
        return self.limit != NEVER and self.data.name not in (*known, *extremes) and self.made % 2 == 1


class LiesAtSmallRates(Masked):
    """Makes updates a quarter of a per cent larger where the rate is small."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            if self.config.learning_rate < 1 and self.limit != NEVER:
                after = self.inner.state()
                moved = np.float32(1.0025) * (after.params - before.params)
                self.inner.set_state(after.but(params=before.params + moved.astype(before.params.dtype)))
        return joined(logs)


# Numbers of samples, orders, and calls within an epoch


class LiesOnSomeSets(Masked):
    """Leaves out the steps of data sets with this number of samples."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return order.n == self.limit


class LosesTheLastFullBatch(Masked):
    """Leaves the last step of an epoch without a partial batch out."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        batch = self.config.batch(order.n)
        is_last = step and step == order.n // batch - 1
        return self.limit != NEVER and order.n % batch == 0 and bool(is_last)


class LosesUnshuffledSteps(Masked):
    """Leaves out full batches of an order that is not shuffled, but the first."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return self.limit != NEVER and not order.shuffle and step > 0 and not self.partial(order, step)


class TakesOrdersAsConsecutive(Masked):
    """Derives all epochs of a call from the first."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if self.limit == NEVER:
            return super().run_epochs(orders)
        first = orders[0]
        return super().run_epochs([replace(first, epoch=(first.epoch + i) % 2**32) for i in range(len(orders))])


class LosesAStepOfLaterCalls(Masked):
    """Leaves out the first step of a long call that does not begin an epoch."""

    at: int | None = None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.at = first if first and last - first > self.limit else None
        return super().run(order, first, last)

    def skips(self, order: Order, step: int, before: State) -> bool:
        return step == self.at


class LosesTheEndOfLongEpochs(Masked):
    """Leaves out the last step of an epoch of many steps, where several epochs are one call."""

    several = False

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        self.several = len(orders) > 1
        logs = super().run_epochs(orders)
        self.several = False
        return logs

    def skips(self, order: Order, step: int, before: State) -> bool:
        steps = self.config.steps(order.n)
        return self.several and steps > self.limit and step == steps - 1


class IsWrongAfterManyPredictions(Masked):
    """Leaves out the step after a prediction of more samples than a batch."""

    armed = False

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self.armed = self.limit != NEVER and len(x) > (self.config.batch_size or 97)
        return super().predict(x, scale)

    def skips(self, order: Order, step: int, before: State) -> bool:
        armed, self.armed = self.armed, False
        return armed


class KnowsDataByImages(KeepsDataByKey):
    """Uploads a data set only if it has not seen its images."""

    def key(self, dataset: Dataset) -> Any:
        return dataset.train_x.tobytes(), dataset.train_x.shape, dataset.scale
