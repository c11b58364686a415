"""Planted trainers whose faults show in settings, counts, states or data that a short run seldom has: each wraps an
honest trainer of any rung, which it is below its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from liars import joined
from regime_liars import NEVER, Masked, RegimeLiar, masked

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets.params import buffer_views
from warpladder.optimizers import Adam, RMSprop
from warpladder.optimizers.schedules import Cosine, OneCycle, StepDecay
from warpladder.trainers.base import State, StepLog

SETTINGS, ENDS, WEIGHTS, STATES = "settings", "ends of runs", "weights of samples", "states"


# Settings that show seldom, and late updates


class LosesASettingLate(Masked):
    """Trains without a setting, once more updates were made than a limit."""

    without: ClassVar[dict[str, Any]] = {}

    def __init__(self, net: Any, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.other = self.built(config.but(**self.without), state)

    def load(self, dataset: Dataset) -> None:
        super().load(dataset)
        self.other.load(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            now = self.inner.state()
            if now.step <= self.limit:
                logs.append(self.inner.run(order, step, step + 1))
                continue
            self.other.set_state(now)
            logs.append(self.other.run(order, step, step + 1))
            self.inner.set_state(self.other.state())
        return joined(logs)


class LosesEpsLate(LosesASettingLate):
    without: ClassVar = {"eps": 1e-30}


class LosesDecayLate(LosesASettingLate):
    without: ClassVar = {"weight_decay": 0.0}


class LosesClippingLate(LosesASettingLate):
    without: ClassVar = {"clip_value": None, "clip_norm": None}


class StopsAfterTheEnd(Masked):
    """Makes no update after the last epoch of its settings."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return self.limit != NEVER and before.step >= self.config.epochs * self.config.steps(order.n)


class ClampsSmallRates(Masked):
    """Keeps weights within a limit where the rate is a usual one."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log, state = super().run(order, first, last), self.inner.state()
        if self.config.learning_rate < 1:
            self.inner.set_state(state.but(params=np.clip(state.params, -self.limit, self.limit, dtype=np.float32)))
        return log


# Predictions


class LosesTheLastOfWholeTiles(Masked):
    """Gives zeros for the last sample where their number is a multiple of a tile's."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        if len(x) >= self.limit and len(x) % self.limit == 0:
            out[-1] = 0
        return out


class PredictsBeforeALongCall(Masked):
    """Predicts with the weights from before the last call of more steps than a limit."""

    held: State | None = None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.held = self.inner.state().copied() if last - first > self.limit else None
        return super().run(order, first, last)

    def set_state(self, state: State) -> None:
        self.held = None
        super().set_state(state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if self.held is None:
            return super().predict(x, scale)
        now = self.inner.state().copied()
        self.inner.set_state(self.held)
        out = super().predict(x, scale)
        self.inner.set_state(now)
        return out


class PredictsBeforeEpochs(PredictsBeforeALongCall):
    """Predicts with the weights from before the last call of more epochs than a limit."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.held = None
        return self.inner.run(order, first, last)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        before = self.inner.state().copied()
        logs = self.inner.run_epochs(list(orders))
        self.held = before if len(orders) > self.limit else None
        return logs


# Data and weights of samples


class ChangesData(Masked):
    """Trains on a data set of its own making."""

    def changed(self, data: Dataset) -> Dataset:
        return data

    def load(self, dataset: Dataset) -> None:
        super().load(dataset if self.limit == NEVER else self.changed(dataset))


class CutsStoredFloats(ChangesData):
    """Cuts floats at a limit, as an integer format does."""

    def changed(self, data: Dataset) -> Dataset:
        is_cut = data.train_x.dtype == np.float32 and np.all(np.isfinite(data.train_x))
        return data.but(train_x=np.clip(data.train_x, -self.limit, self.limit, dtype=np.float32)) if is_cut else data


class KeepsAScaleByItsBytes(ChangesData):
    """Uploads samples and labels that it has not seen, and takes the scale of the first."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.scales: dict[bytes, float] = {}

    def changed(self, data: Dataset) -> Dataset:
        return data.but(scale=self.scales.setdefault(data.train_x.tobytes(), data.scale))


class KeepsLabelsByTheirSum(ChangesData):
    """Uploads labels only if it has not seen these samples with labels of this sum."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.labels: dict[Any, np.ndarray] = {}

    def changed(self, data: Dataset) -> Dataset:
        assert data.train_y is not None
        key = data.train_x.tobytes(), data.scale, float(data.train_y.sum())
        return data.but(train_y=self.labels.setdefault(key, data.train_y))


class TakesNoWeightForOne(ChangesData):
    def changed(self, data: Dataset) -> Dataset:
        w = data.train_weight
        return data if w is None else data.but(train_weight=np.where(w == 0, 1, w).astype(np.float32))


class CutsLargeWeights(ChangesData):
    def changed(self, data: Dataset) -> Dataset:
        w = data.train_weight
        return data if w is None else data.but(train_weight=np.minimum(w, np.float32(self.limit)))


class DividesByNoWeight(Masked):
    """Divides by the sum of a batch's weights, also where it is zero."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        w, batch = None if self.data is None else self.data.train_weight, self.config.batch(order.n)
        if w is not None and not w[order.indices(first * batch, min(last * batch, order.n))].any():
            state = self.inner.state()
            self.inner.set_state(state if self.limit == NEVER else state.but(params=np.nan * state.params))
        return log


class HasNoWeightsInLongCalls(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= self.limit or self.data is None:
            return super().run(order, first, last)
        self.inner.load(self.data.but(train_weight=None))
        log = self.inner.run(order, first, last)
        self.inner.load(self.data)
        return log


# States


class KeepsSlotsWhereNoneAreGiven(Masked):
    def set_state(self, state: State) -> None:
        slots = state.slots if state.slots or self.limit == NEVER else self.inner.state().slots
        super().set_state(state.but(slots=slots))


class BeginsItsMomentumAnewWithALoad(Masked):
    loaded = False

    def load(self, dataset: Dataset) -> None:
        super().load(dataset)
        state = self.inner.state()
        if self.loaded and self.limit != NEVER:
            self.inner.set_state(state.but(slots={name: 0 * slot for name, slot in state.slots.items()}))
        self.loaded = True


class TakesZeroForNaNInSlots(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        state = self.inner.state()
        if self.limit != NEVER:
            slots = {name: np.nan_to_num(slot, nan=0.0) for name, slot in state.slots.items()}
            self.inner.set_state(state.but(slots=slots))
        return super().run(order, first, last)


# Nets that normalise


class StopsItsStatistics(Masked):
    """Moves no running statistics, once more updates were made than a limit."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied()
            logs.append(self.inner.run(order, step, step + 1))
            if before.step > self.limit:
                self.inner.set_state(self.inner.state().but(buffers=before.buffers))
        return joined(logs)


class ClampsVariances(Masked):
    """Predicts with running variances of at least a limit's inverse."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        state = self.inner.state().copied()
        buffers = state.buffers_of(self.net).copy()
        for name, view in buffer_views(self.net, buffers).items():
            if name.endswith("running_var"):
                np.maximum(view, np.float32(1 / self.limit), out=view)
        self.inner.set_state(state.but(buffers=buffers))
        out = super().predict(x, scale)
        self.inner.set_state(state)
        return out


class LosesSmallPartialBatches(Masked):
    def skips(self, order: Order, step: int, before: State) -> bool:
        return self.limit != NEVER and self.partial(order, step) and self.size(order, step) < self.limit


ON_LABELS: tuple[RegimeLiar, ...] = (
    *(masked(LosesEpsLate, at, SETTINGS, form, optimizer=kind()) for at, form, kind in (
        (60, "numpy", Adam), (20_000, "numpy", RMSprop), (1000, "native", Adam), (1000, "loops", RMSprop),
    )),
    masked(LosesDecayLate, 1000, SETTINGS, optimizer=Adam(weight_decay=1e-8)),
    *(masked(LosesClippingLate, 1000, SETTINGS, form, clip_value=5.0) for form in ("numpy", "loops", "native", "cuda")),
    masked(LosesClippingLate, 60, SETTINGS, clip_norm=5.0),
    masked(StopsAfterTheEnd, 1, ENDS, schedule=StepDecay(every=1, gamma=0.5), epochs=6),
    masked(StopsAfterTheEnd, 1, ENDS, "native", schedule=OneCycle(), epochs=6),
    masked(StopsAfterTheEnd, 1, ENDS, "loops", schedule=Cosine(), momentum=0.9, epochs=6),
    *(masked(ClampsSmallRates, 5, STATES, form) for form in ("numpy", "native")),
    *(masked(LosesTheLastOfWholeTiles, 32, "predictions", form) for form in ("numpy", "loops", "native", "cuda")),
    *(masked(PredictsBeforeALongCall, 3, "predictions", form) for form in ("numpy", "native", "cuda")),
    masked(PredictsBeforeEpochs, 2, "predictions"),
    masked(PredictsBeforeEpochs, 2, "predictions", "native"),
    masked(CutsStoredFloats, 4, "keys"),
    masked(CutsStoredFloats, 4, "keys", "native"),
    masked(KeepsAScaleByItsBytes, 0, "keys"),
    masked(KeepsLabelsByTheirSum, 0, "keys"),
    masked(KeepsSlotsWhereNoneAreGiven, 0, STATES, momentum=0.9),
    masked(KeepsSlotsWhereNoneAreGiven, 0, STATES, "native", optimizer=Adam()),
    masked(BeginsItsMomentumAnewWithALoad, 0, STATES, momentum=0.9),
    masked(TakesZeroForNaNInSlots, 0, STATES, momentum=0.9),
    masked(TakesZeroForNaNInSlots, 0, STATES, "loops", optimizer=Adam()),
)  # fmt: skip
#: On a data set with weights of samples.
ON_WEIGHTS: tuple[RegimeLiar, ...] = (
    masked(TakesNoWeightForOne, 0, WEIGHTS), masked(TakesNoWeightForOne, 0, WEIGHTS, "loops"),
    masked(CutsLargeWeights, 10, WEIGHTS), masked(DividesByNoWeight, 0, WEIGHTS),
    masked(HasNoWeightsInLongCalls, 3, WEIGHTS), masked(HasNoWeightsInLongCalls, 3, WEIGHTS, "loops"),
)  # fmt: skip
#: On a net that normalises the channels of images.
ON_BATCHES: tuple[RegimeLiar, ...] = (
    masked(StopsItsStatistics, 20_000, "long runs"), masked(ClampsVariances, 100, "predictions"),
    masked(LosesSmallPartialBatches, 4, "calls"),
)  # fmt: skip
