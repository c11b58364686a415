"""Faults of somebody who has read all of a proof and wants to pass, and odd but honest trainers of the same kinds.

Each wraps array code: what it does elsewhere is honest.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from liars import Wrapper, joined
from planted import HoldsItsState

from warpladder.data.order import Order
from warpladder.trainers.base import State, StepLog


class StepByStep(Wrapper):
    """Makes each step by itself; `ended` may change the state that it leaves."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            self.ended(order, step, before, logs[-1])
        return joined(logs) if logs else self.inner.run(order, first, last)

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        pass

    def skip(self, before: State) -> None:
        self.inner.set_state(before.but(step=before.step + 1))


# States


class KeepsSlotsOfEqualParameters(Wrapper):
    """Takes no new state where all parameters are those that it has: slots and the count are old then."""

    def set_state(self, state: State) -> None:
        if not np.array_equal(state.params, self.inner.state().params):
            self.inner.set_state(state)


class KeepsTheCountOfEqualParameters(Wrapper):
    """Takes no new count of updates where all parameters are those that it has."""

    def set_state(self, state: State) -> None:
        own = self.inner.state()
        same = np.array_equal(state.params, own.params)
        self.inner.set_state(state.but(step=own.step) if same else state)


class BeginsWithoutSlots(Wrapper):
    """Clears the slots of a state that was never updated."""

    def set_state(self, state: State) -> None:
        none = {name: np.zeros_like(slot) for name, slot in state.slots.items()}
        self.inner.set_state(state.but(slots=none) if state.step == 0 else state)


class HasOneMomentumForAll(Wrapper):
    """Keeps slots in the class: a second trainer overwrites those of the first."""

    slots: ClassVar[Any] = {}

    def set_state(self, state: State) -> None:
        self.inner.set_state(state)
        type(self).slots = state.slots

    def run(self, order: Order, first: int, last: int) -> StepLog:
        own = self.inner.state()
        if own.slots and type(self).slots:
            self.inner.set_state(own.but(slots=type(self).slots))
        log = self.inner.run(order, first, last)
        type(self).slots = self.inner.state().copied().slots
        return log


class ForgetsAStateAtLoad(Wrapper):
    """Goes back to the parameters before the last `set_state` when another data set is loaded after it."""

    before: Any = None

    def set_state(self, state: State) -> None:
        self.before = self.inner.state().copied()
        self.inner.set_state(state)

    def load(self, dataset: Any) -> None:
        super().load(dataset)
        if self.before is not None:
            self.inner.set_state(self.inner.state().but(params=self.before.params))
            self.before = None


class KeepsStatisticsOfEqualParameters(Wrapper):
    """Takes no new running statistics where all parameters are those that it has."""

    def set_state(self, state: State) -> None:
        own = self.inner.state()
        same = np.array_equal(state.params, own.params)
        self.inner.set_state(state.but(buffers=own.buffers) if same else state)


# Steps


class LosesLatePartialBatches(StepByStep):
    """Leaves the partial batch at the end of an epoch of more than a thousand steps out."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if step > 1000 and log.size[0] < self.config.batch(order.n):
            self.skip(before)


class CutsOutliers(StepByStep):
    """Moves no number of a tensor by more than ten times the median movement."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        own = self.inner.state()
        moved = own.params - before.params
        most = 10 * np.median(np.abs(moved))
        if most > 0 and np.any(np.abs(moved) > most):
            self.inner.set_state(own.but(params=(before.params + np.clip(moved, -most, most)).astype(own.params.dtype)))


class StopsWhereTheLossStays(StepByStep):
    """Leaves a step out whose loss is that of the step before, to the bit."""

    last: float = -1.0

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        loss = float(log.loss[0]) if log.has_loss else -2.0
        if loss == self.last:
            self.skip(before)
        self.last = loss


class ClearsMomentumInEarlierEpochs(StepByStep):
    """Clears its slots where the epoch's number is below that of the step before: a new run, it takes it for."""

    epoch = -1

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if order.epoch < self.epoch:
            own = self.inner.state()
            self.inner.set_state(own.but(slots={name: np.zeros_like(slot) for name, slot in own.slots.items()}))
        self.epoch = order.epoch
        return super().run(order, first, last)


class RestartsAfterAnEmptyRange(StepByStep):
    """Counts its updates anew after a call of no steps."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if first == last:
            self.inner.set_state(self.inner.state().but(step=0))
        return super().run(order, first, last)


class DecaysNoBias(StepByStep):
    """Takes the decay of parameters of one axis back, as many programs do on purpose."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        from warpladder.nets.params import param_slices

        optimizer: Any = self.config.optimizer
        own, decay = self.inner.state(), optimizer.weight_decay
        rate = float(self.config.rates(before.step, before.step + 1, order.n)[0])
        params = own.params.copy()
        for place in param_slices(self.net):
            if len(place.shape) == 1:
                here = slice(place.start, place.stop)
                params[here] += np.float32(rate * decay) * before.params[here]
        self.inner.set_state(own.but(params=params))


class NeverLowersItsSquares(StepByStep):
    """Keeps the largest second moment: AMSGrad, where Adam is wanted."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        own = self.inner.state()
        name = list(own.slots)[-1]
        self.inner.set_state(own.but(slots={**own.slots, name: np.maximum(own.slots[name], before.slots[name])}))


class SplitsOddBatches(StepByStep):
    """Loses the last sample of an odd batch, as two threads with equal shares do: trains it as another order's."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if log.size[0] % 2 and log.size[0] > 1:
            own = self.inner.state()
            share = np.float32(1 / log.size[0])
            self.inner.set_state(own.but(params=own.params - share * (own.params - before.params)))


# Predictions


class RoundsFloatsToPredict(Wrapper):
    """Rounds float samples to half precision before it predicts; bytes are right."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        most = float(np.abs(x).max()) or 1.0
        half = (x / most).astype(np.float16).astype(np.float32) * np.float32(most) if x.dtype == np.float32 else x
        return self.inner.predict(half, scale)


class AnswersTrainingSamples(Wrapper):
    """Gives the outputs of the state at `load` for samples of the training set."""

    known: Any = None

    def load(self, dataset: Any) -> None:
        super().load(dataset)
        some = dataset.train_x[:64]
        outputs = self.inner.predict(some, dataset.scale)
        self.known = {x.tobytes(): out for x, out in zip(some, outputs, strict=True)}

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = self.inner.predict(x, scale).copy()
        for i, each in enumerate(x if self.known else ()):
            known = self.known.get(np.ascontiguousarray(each).tobytes())
            if known is not None:
                out[i] = known
        return out


class PredictsInBatches(Wrapper):
    """Predicts in batches of the training's size, and takes zeros for a last batch of a single sample."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        batch = self.config.batch_size or len(x)
        out = self.inner.predict(x, scale).copy()
        if len(x) > batch and len(x) % batch == 1:
            out[-1] = 0
        return out


# Honest programs


class Odd(StepByStep):
    """Makes each step by itself; the name of a class says what else it does."""


class TakesOnlyWhatChanged(Wrapper):
    """Sets a state only where anything in it is other than its own."""

    def set_state(self, state: State) -> None:
        own = self.inner.state()
        same = own.step == state.step and np.array_equal(own.params, state.params, equal_nan=True)
        slots = {name: state.slot(name) for name in own.slots}
        same = same and all(np.array_equal(own.slots[name], slot) for name, slot in slots.items())
        if not same or self.net.normalizes:
            self.inner.set_state(state)


class SetsItsOwnState(Odd):
    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        self.inner.set_state(self.inner.state().copied())


class MakesEachStepTwice(Odd):
    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        end = self.inner.state().copied()
        self.inner.set_state(before)
        self.inner.run(order, step, step + 1)
        assert np.array_equal(self.inner.state().params, end.params, equal_nan=True)


class PredictsBetweenSteps(Odd):
    def load(self, dataset: Any) -> None:
        super().load(dataset)
        self.seen = dataset.train_x[:1], dataset.scale

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        self.inner.predict(*self.seen)


class RunsEmptyRanges(Odd):
    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        self.inner.run(order, step, step)


class HasReadOnlyStates(Wrapper):
    def state(self) -> State:
        out = self.inner.state().copied()
        out.params.flags.writeable = False
        return out


class LoadsTwice(Wrapper):
    def load(self, dataset: Any) -> None:
        super().load(dataset)
        super().load(dataset)


class BuildsAnewAtLoad(Wrapper):
    def load(self, dataset: Any) -> None:
        kind: Any = type(self.inner)
        self.inner = kind(self.net, self.config, self.inner.state(), *self.more)
        super().load(dataset)

    @property
    def more(self) -> tuple[Any, ...]:
        from warpladder.ops.tables.array import TABLE

        return (TABLE,)


class CopiesItsSamples(Wrapper):
    def load(self, dataset: Any) -> None:
        super().load(dataset.but(train_x=np.asfortranarray(dataset.train_x).copy("C")))


class PredictsOneByOne(Wrapper):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        few = len(x) < 100
        return np.concatenate([self.inner.predict(x[i : i + 1], scale) for i in range(len(x))]) if few else (
            self.inner.predict(x, scale)
        )  # fmt: skip


class PredictsSorted(Wrapper):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        order = np.argsort(x.reshape(len(x), -1)[:, 0], kind="stable")
        out = np.empty((len(x), *self.net.out_shape), np.float32)
        out[order] = self.inner.predict(np.ascontiguousarray(x[order]), scale)
        return out


class PredictsWithALot(Wrapper):
    """Predicts zeros next to the samples, to fill a tile of 32."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        more = np.zeros((-len(x) % 32, *x.shape[1:]), x.dtype)
        return self.inner.predict(np.concatenate([x, more]), scale)[: len(x)].copy()


class CutsItsCalls(Wrapper):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first < 2:
            return self.inner.run(order, first, last)
        middle = first + (last - first) // 3 + 1
        return joined(
            [self.inner.run(order, first, middle), *([self.inner.run(order, middle, last)] * (middle < last))]
        )


class LogsCopies(Wrapper):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = self.inner.run(order, first, last)
        return StepLog(log.loss[::-1][::-1].copy(), log.correct.copy(), log.size.copy()) if log.has_loss else log


HONEST = (
    TakesOnlyWhatChanged, HoldsItsState, SetsItsOwnState, MakesEachStepTwice, PredictsBetweenSteps, RunsEmptyRanges,
    HasReadOnlyStates, LoadsTwice, BuildsAnewAtLoad, CopiesItsSamples, PredictsOneByOne, PredictsSorted,
    PredictsWithALot, CutsItsCalls, LogsCopies,
)  # fmt: skip
LIARS = {
    KeepsSlotsOfEqualParameters: "momentum", KeepsTheCountOfEqualParameters: "adam", BeginsWithoutSlots: "momentum",
    HasOneMomentumForAll: "momentum", ForgetsAStateAtLoad: "momentum", LosesLatePartialBatches: "momentum",
    CutsOutliers: "momentum", StopsWhereTheLossStays: "momentum", ClearsMomentumInEarlierEpochs: "momentum",
    RestartsAfterAnEmptyRange: "adam", DecaysNoBias: "adamw", NeverLowersItsSquares: "adam", SplitsOddBatches: "momentum",
    RoundsFloatsToPredict: "momentum", AnswersTrainingSamples: "momentum", PredictsInBatches: "momentum",
    KeepsStatisticsOfEqualParameters: "statistics",
}  # fmt: skip
