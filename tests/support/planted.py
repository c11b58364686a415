"""Lists of planted trainers and of honest ones: those of `planted_calls` and `planted_operations`, in every form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import planted_calls as calls
from liars import joined
from planted_operations import HONEST_OPERATIONS, OPERATIONS, Build, Planted
from regime_liars import FORMS, Masked, RegimeLiar, masked

from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Constant, Cosine, StepDecay
from warpladder.trainers.base import State, StepLog

CALLS, LONG, RATES, PREDICT, KEYS = "calls", "long runs", "rates", "predictions", "keys"

PLANTED_CALLS: tuple[RegimeLiar, ...] = (
    *(masked(calls.SwapsTwoStepsOfALongCall, 3, CALLS, form) for form in FORMS),
    masked(calls.ReversesALongCall, 3, CALLS),
    *(masked(calls.TrainsHalfOfALongCall, 3, CALLS, form) for form in FORMS),
    masked(calls.RepeatsAStepOfALongCall, 3, CALLS, "native"),
    masked(calls.DropsThePartialBatchOfALongCall, 3, CALLS),
    masked(calls.LagsInLongCalls, 3, CALLS, "loops"),
    masked(calls.CountsOneUpdateForALongCall, 3, CALLS),
    masked(calls.CountsOneSampleTooManyInLongCalls, 3, CALLS),
    masked(calls.CoolsInLongCalls, 3, CALLS, "native"),
    masked(calls.CoolsInLongCalls, 3, CALLS, optimizer=Adam()),
    masked(calls.SumsEpochsOfOneCall, 2, CALLS),
    masked(calls.SwapsEpochsOfOneCall, 2, CALLS, "native"),
    *(masked(calls.WrapsEpochs, 2**16, LONG, form) for form in FORMS),
    masked(calls.WrapsEpochs, 256, LONG),
    masked(calls.WrapsSeeds, 2**16, LONG),
    masked(calls.WrapsSeeds, 2**31, LONG),
    masked(calls.WrapsSteps, 256, LONG),
    masked(calls.WrapsUpdates, 2**15, LONG, optimizer=Adam()),
    masked(calls.StopsBelowARate, 0.01, RATES, schedule=StepDecay(every=1, gamma=0.5), epochs=30),
    masked(calls.StopsBelowARate, 0.3, RATES, schedule=Cosine(), momentum=0.9),
    masked(calls.IsAnUpdateLate, 100, RATES, schedule=Constant(warmup=20)),
    masked(calls.IsAnUpdateLate, 0, RATES, optimizer=Adam()),
    *(masked(calls.RoundsManyPredictions, 64, PREDICT, form) for form in FORMS),
    masked(calls.MissesTheRestOfChunks, 32, PREDICT),
    masked(calls.SharesRowsOfChunks, 128, PREDICT),
    masked(calls.SortsItsAnswers, 100, PREDICT),
    masked(calls.PredictsBeforeItsLastUpdate, 0, PREDICT),
    *(masked(calls.KeepsDataByKey, 0, KEYS, form) for form in FORMS),
    masked(calls.KeepsDataByFirstSample, 0, KEYS),
    masked(calls.KeepsDataByShape, 0, KEYS),
    masked(calls.KeepsUpdatesOfABatch, 0, KEYS),
    masked(calls.HalvesEvenBatches, 0, KEYS),
    masked(calls.StopsWhereTheLossIsSmall, 0.05, KEYS),
    masked(calls.CutsUpdates, 0.5, KEYS),
    masked(calls.LiesOutsideOfProofs, 1, KEYS),
    masked(calls.LiesUnderOtherNames, 0, KEYS),
    masked(calls.LiesAtSmallRates, 0, KEYS),
    masked(calls.LiesOnSomeSets, 1, KEYS),
    masked(calls.LosesTheLastFullBatch, 0, CALLS),
    masked(calls.LosesUnshuffledSteps, 0, CALLS),
    masked(calls.TakesOrdersAsConsecutive, 0, CALLS),
    masked(calls.LosesAStepOfLaterCalls, 3, CALLS),
    masked(calls.LosesTheEndOfLongEpochs, 2, CALLS),
    masked(calls.IsWrongAfterManyPredictions, 0, PREDICT),
    masked(calls.KnowsDataByImages, 0, KEYS),
)  # fmt: skip
PLANTED_OPERATIONS: tuple[Planted, ...] = OPERATIONS


# Honest trainers that look odd


class InCallsOf(Masked):
    """Makes a long call in several of a few steps."""

    most = 5

    def run(self, order: Order, first: int, last: int) -> StepLog:
        parts = range(first, last, self.most)
        if first == last:
            return self.inner.run(order, first, last)
        return joined([self.inner.run(order, at, min(at + self.most, last)) for at in parts])


class Whole(Masked):
    """Passes whole calls on."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.inner.run(order, first, last)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return self.inner.run_epochs(list(orders))


class InAThread(Whole):
    """Trains in a thread, which is waited for."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        out: list[StepLog] = []
        thread = threading.Thread(target=lambda: out.append(self.inner.run(order, first, last)))
        thread.start()
        thread.join()
        return out[0]


class GathersEpochs(Masked):
    """Copies the samples of an epoch in their order, and trains them as they lie: the form of a fused program."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        assert self.data is not None
        which = order.indices(0, order.n)
        y = self.data.train_y
        y = None if y is None else np.ascontiguousarray(y[which])
        self.inner.load(self.data.but(train_x=np.ascontiguousarray(self.data.train_x[which]), train_y=y))
        return self.inner.run(Order(0, order.epoch, order.n, shuffle=False), first, last)


class StoresFloats(Masked):
    """Scales a data set's bytes once."""

    def load(self, dataset: Dataset) -> None:
        x = dataset.train_x.astype(np.float32) * np.float32(dataset.scale)
        test = dataset.test_x.astype(np.float32) * np.float32(dataset.scale)
        self.data = dataset
        self.inner.load(dataset.but(train_x=x, test_x=test, scale=1.0))


class PredictsInChunks(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return np.concatenate([self.inner.predict(x[at : at + 7], scale) for at in range(0, len(x), 7)])


class PredictsBackwards(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self.inner.predict(np.ascontiguousarray(x[::-1]), scale)[::-1].copy()


class PredictsEachOnce(Masked):
    """Computes equal samples once."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        rows = np.ascontiguousarray(x).reshape(len(x), -1)
        _, first, which = np.unique(rows.view(np.uint8), axis=0, return_index=True, return_inverse=True)
        return self.inner.predict(np.ascontiguousarray(x[first]), scale)[which.reshape(-1)]


class TakesStatesLate(Masked):
    """Copies a state when it is set, and hands it on when it is needed."""

    late: State | None = None

    def _settle(self) -> None:
        if self.late is not None:
            self.inner.set_state(self.late)
            self.late = None

    def set_state(self, state: State) -> None:
        self.late = state.copied()

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self._settle()
        return self.inner.run(order, first, last)

    def state(self) -> State:
        self._settle()
        return self.inner.state()

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self._settle()
        return self.inner.predict(x, scale)


class HoldsItsState(Masked):
    """Reads a state once, and gives out copies until something changes it."""

    held: State | None = None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.held = None
        return self.inner.run(order, first, last)

    def set_state(self, state: State) -> None:
        self.held = None
        self.inner.set_state(state)

    def state(self) -> State:
        self.held = self.held or self.inner.state().copied()
        return self.held.copied()


class MovesItsState(Masked):
    """Takes its state out and in again before each call."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.inner.set_state(self.inner.state())
        return self.inner.run(order, first, last)


#: Odd trainers, each in these forms.
ODD: dict[type[Masked], tuple[str, ...]] = {
    InCallsOf: tuple(FORMS), Whole: tuple(FORMS), InAThread: ("numpy", "loops", "native"),
    GathersEpochs: ("numpy", "loops", "native", "cuda"), StoresFloats: ("numpy", "native", "cuda"),
    PredictsInChunks: ("numpy", "loops", "native", "cuda"), PredictsBackwards: ("numpy", "native"),
    PredictsEachOnce: ("numpy", "loops"), TakesStatesLate: ("numpy", "cuda"), HoldsItsState: ("numpy", "native"),
    MovesItsState: ("numpy", "loops", "native", "cuda"),
}  # fmt: skip


def _odd(kind: type[Masked], form: str) -> Build:
    return type(kind.__name__, (kind,), {"form": form})


HONEST: dict[str, tuple[Callable[..., Any], type | None]] = {
    **{f"{kind.__name__}-{form}": (_odd(kind, form), None) for kind, forms in ODD.items() for form in forms},
    **HONEST_OPERATIONS,
}
