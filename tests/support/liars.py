"""Liars: trainers with one planted defect each, which the proof must catch.

Each wraps the honest numpy rung and spoils one thing. `LIARS` says what each does, where it applies and
which checks may be the first to see it; a defect seen only by some other check would mean that its own
check is blind. `HONEST` are trainers that look odd and do nothing wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets import Conv2d, CrossEntropyLoss, Layer, Linear, MaxPool2d, MSELoss, Net, ReLU
from warpladder.nets.params import initial, param_slices, views
from warpladder.ops.engine.base import OpTable
from warpladder.ops.linear.array import ArrayLinear
from warpladder.ops.maxpool2d.array import ArrayMaxPool2d
from warpladder.ops.relu.array import ArrayReLU
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import SGD
from warpladder.proof.tolerance import rounded
from warpladder.rungs.numpy import build as honest
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


def joined(logs: list[StepLog]) -> StepLog:
    """The log of consecutive ranges as that of one."""
    return StepLog.joined(logs or [StepLog(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))])


class Wrapper(Trainer):
    """The honest trainer, step by step, with every call passed through.

    Subclasses override `settings` (what the honest one is built with), `after` (what a step leaves
    behind), `log` (what it reports), or a call.
    """

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        self.net, self.config = net, config
        self.inner = honest(net, self.settings(config), state)
        self.data: Dataset | None = None

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config

    def load(self, dataset: Dataset) -> None:
        self.data = dataset
        self.inner.load(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            log = self.inner.run(order, step, step + 1)
            self.inner.set_state(self.after(order, step, before, self.inner.state()))
            logs.append(self.log(order, step, before, log))
        return joined(logs)

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return state

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return log

    def state(self) -> State:
        return self.inner.state()

    def set_state(self, state: State) -> None:
        self.inner.set_state(state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self.inner.predict(x, scale)

    def size(self, order: Order, step: int) -> int:
        batch = self.config.batch(order.n)
        return min(batch, order.n - step * batch)

    def partial(self, order: Order, step: int) -> bool:
        return self.size(order, step) < self.config.batch(order.n)


def blended(net: Net, before: State, state: State, share: Callable[[str, np.ndarray], np.ndarray | float]) -> State:
    """A state whose update of each tensor is `share(name, update)` of the honest one."""
    params = before.params.copy()
    update = views(net, state.params - before.params)
    for name, tensor in views(net, params).items():
        tensor += (share(name, update[name]) * update[name]).astype(np.float32)
    return state.but(params=params)


# What a step leaves behind


class WritesNothing(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return before


class WritesNaN(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return replace(state, params=np.full_like(state.params, np.nan))


class WritesOneNaN(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        state.params[-1] = np.nan
        return state


class WritesOneInfinity(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        state.params[0] = np.inf
        return state


class ReplaysItsLastUpdate(Wrapper):
    """Computes an update once and applies it at every later step; its log is honest."""

    update: np.ndarray | None = None

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        if self.update is None:
            self.update = state.params - before.params
        return replace(state, params=before.params + self.update)


class LagsOneStepBehind(Wrapper):
    """Applies the update of the step before: a buffer read before it was written."""

    update: np.ndarray | None = None

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        now = state.params - before.params
        lagging = now if self.update is None else self.update
        self.update = now
        return replace(state, params=before.params + lagging)


class AddsToWhatIsThere(Wrapper):
    """Multiplies an old buffer by zero instead of overwriting it: wrong only where the buffer holds NaN."""

    kept: np.ndarray | None = None

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        if self.kept is not None:
            state = replace(state, params=state.params + 0 * self.kept)
        self.kept = state.params.copy()
        return state


class DropsBiasGradients(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, lambda name, u: float(not name.endswith("bias")))


class DropsTheLastBias(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        last = param_slices(self.net)[-1].name
        return blended(self.net, before, state, lambda name, u: float(name != last))


class LeavesTheFirstLayer(Wrapper):
    """The launch of the first layer's kernel failed and nobody asked (S1)."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        first = f"{self.net.first_trained}."
        return blended(self.net, before, state, lambda name, u: float(not name.startswith(first)))


def _but_last(axis: int, count: int, factor: float) -> Callable[[str, np.ndarray], np.ndarray | float]:
    def share(name: str, update: np.ndarray) -> np.ndarray | float:
        if update.ndim < 2:
            return 1.0
        out = np.ones(update.shape)
        out[(slice(None),) * axis + (slice(-count, None),)] = factor
        return out

    return share


class MissesTheLastRow(Wrapper):
    """The last partial tile: the last output of every weight matrix."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, _but_last(0, 1, 0.0))


class MissesTheLastColumns(Wrapper):
    """The last partial tile: the last three inputs of every weight matrix."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, _but_last(1, 3, 0.0))


class SlightlyWrongInTheLastRow(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, _but_last(0, 1, 1.0025))


class QuarterOfAPercent(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, lambda name, u: 1.0025)


class WrongInTheLastPartialBatch(Wrapper):
    """Divides the sum by the full batch."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        share = self.size(order, step) / self.config.batch(order.n)
        return blended(self.net, before, state, lambda name, u: share)


class SkipsTheLastPartialBatch(Wrapper):
    """Reports it and does not train on it."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return before if self.partial(order, step) else state


class WrongOnABatchOfOne(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(
            self.net,
            before,
            state,
            lambda name, u: 0.0 if self.size(order, step) == 1 < self.config.batch(order.n) else 1.0,
        )


class FlipsALastBit(Wrapper):
    """Sums in an order that nobody fixed."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.random = np.random.default_rng()

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        moved = np.flatnonzero(state.params != before.params)
        some = moved[self.random.random(len(moved)) < 0.3]
        state.params[some] = np.nextafter(state.params[some], np.float32(0))
        return state


class ReportsALooseBit(Wrapper):
    """A loss that is summed in an order that nobody fixed."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.random = np.random.default_rng()

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return replace(log, loss=log.loss * (1 + self.random.random() * 2**-40))


class TransposesSquareWeights(Wrapper):
    def after(self, order: Order, step: int, before: State, state: State) -> State:
        update = views(self.net, state.params - before.params)
        for name, w in views(self.net, state.params).items():
            if w.ndim == 2 and w.shape[0] == w.shape[1]:
                w[...] = views(self.net, before.params)[name] + update[name].T
        return state


# What it was told to do


class SumsOverTheBatch(Wrapper):
    """Steps along the sum of the gradients, not their mean (S1, S2)."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, lambda name, u: float(self.size(order, step)))


class ForgetsThePixelsInTheMean(Wrapper):
    """Divides MSE by the batch alone."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return blended(self.net, before, state, lambda name, u: float(np.prod(self.net.out_shape)))


class IgnoresMomentum(Wrapper):
    """Takes a buffer, gives it back, and never looks at it."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.held = state.slot("momentum_buffer").copy()

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(momentum=0.0, nesterov=False)

    def state(self) -> State:
        return self.inner.state().but(slots={"momentum_buffer": self.held})

    def set_state(self, state: State) -> None:
        self.held = state.slot("momentum_buffer").copy()
        super().set_state(state)


class KeepsItsMomentumToItself(Wrapper):
    """Trains with momentum, but starts it anew at every set_state."""

    def set_state(self, state: State) -> None:
        self.inner.set_state(state.but(slots={}))


class DampensMomentum(Wrapper):
    """v = m v + (1 - m) g."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        assert isinstance(config.optimizer, SGD)
        return config.but(learning_rate=config.learning_rate * (1 - config.optimizer.momentum))


class IgnoresNesterov(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(nesterov=False)


class IgnoresWeightDecay(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(weight_decay=0.0)


class IgnoresClipping(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(clip_value=None)


class ClipsAtHalf(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(clip_value=None if config.clip_value is None else config.clip_value / 2)


class IgnoresTheNorm(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(clip_norm=None)


class ClipsToHalfTheNorm(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(clip_norm=None if config.clip_norm is None else config.clip_norm / 2)


class HasItsOwnRate(Wrapper):
    """Takes 64 times the rate where the rate is small (S2)."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(learning_rate=64 * config.learning_rate) if config.learning_rate < 1 else config


class RoundsItsRate(Wrapper):
    """Keeps as many digits of the rate as half precision has."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(learning_rate=float(rounded(np.array(config.learning_rate), "fp16")))


class HasItsOwnStart(Wrapper):
    """Ignores the state that it is built with."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, State(initial(net, config.seed)))


# What it reports


class ReportsAWrongLoss(Wrapper):
    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return replace(log, loss=log.loss * 1.001)


class ReportsASummedLoss(Wrapper):
    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return replace(log, loss=log.loss * log.size)


class ReportsTheLossAfterwards(Wrapper):
    """Computes the loss with the updated weights."""

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        now = self.inner.state()
        late = self.inner.run(order, step, step + 1)
        self.inner.set_state(now)
        return replace(log, loss=late.loss)


class ReportsNoLoss(Wrapper):
    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return replace(log, loss=np.full_like(log.loss, np.nan))


class CountsOneTooMany(Wrapper):
    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return replace(log, correct=log.correct + 1)


class CountsTies(Wrapper):
    """A sample counts as correct if no logit is larger than its label's."""

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        assert self.data is not None and self.data.train_y is not None
        now = self.inner.state()
        self.inner.set_state(before)
        batch = self.config.batch(order.n)
        some = order.indices(step * batch, step * batch + self.size(order, step))
        logits, labels = self.inner.predict(self.data.train_x[some], self.data.scale), self.data.train_y[some]
        self.inner.set_state(now)
        best = logits[np.arange(len(some)), labels] >= logits.max(axis=1)
        return replace(log, correct=np.array([np.count_nonzero(best)]))


class ReportsFullBatches(Wrapper):
    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        return replace(log, size=np.full_like(log.size, self.config.batch(order.n)))


class ReportsOneNumber(Wrapper):
    """One mean loss for the whole range."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        return replace(log, loss=np.atleast_1d(log.loss.mean() if len(log.loss) else 0.0))


# Which samples it takes


class ReplaysTheFirstBatch(Wrapper):
    """Trains on the first batch that it ever saw of a data set; sizes and losses are honest."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            self.inner.set_state(before)
            self.inner.run(order, 0, 1)
        return joined(logs)


class KeepsItsFirstData(Wrapper):
    """Looks at the data again only if their number changes."""

    def load(self, dataset: Dataset) -> None:
        if self.data is None or len(self.data.train_x) != len(dataset.train_x):
            super().load(dataset)


class KeepsItsFirstPixels(Wrapper):
    """Uploads once for each number of samples it has seen."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.seen: dict[int, Dataset] = {}

    def load(self, dataset: Dataset) -> None:
        super().load(self.seen.setdefault(len(dataset.train_x), dataset))


class KeepsItsFirstScale(Wrapper):
    scale: float | None = None

    def load(self, dataset: Dataset) -> None:
        self.scale = dataset.scale if self.scale is None else self.scale
        super().load(dataset.but(scale=self.scale))


class ScalesTwice(Wrapper):
    def load(self, dataset: Dataset) -> None:
        super().load(dataset.but(scale=dataset.scale**2))


class ScalesInPlace(Wrapper):
    """Writes the scaled pixels back into the caller's array."""

    def load(self, dataset: Dataset) -> None:
        if dataset.train_x.dtype == np.float32:
            dataset.train_x[...] *= np.float32(dataset.scale)
            dataset = dataset.but(scale=1.0)
        super().load(dataset)


class ReadsSignedBytes(Wrapper):
    """Takes bytes above 127 for negative numbers."""

    def load(self, dataset: Dataset) -> None:
        if dataset.train_x.dtype == np.uint8:
            dataset = dataset.but(train_x=dataset.train_x.view(np.int8).astype(np.float32))
        super().load(dataset)


class MixesUpLabels(Wrapper):
    """Takes each label from the sample before."""

    def load(self, dataset: Dataset) -> None:
        assert dataset.train_y is not None
        super().load(dataset.but(train_y=np.roll(dataset.train_y, 1)))


class CountsIn16Bits(Wrapper):
    """Sample numbers wrap at 65,536."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.inner.run(Wrapped(order.seed, order.epoch, order.n, order.shuffle), first, last)


class Wrapped(Order):
    def indices(self, first: int, last: int) -> np.ndarray:
        return super().indices(first, last) % 2**16


class NeverShuffles(Wrapper):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.inner.run(replace(order, shuffle=False), first, last)


class AlwaysShuffles(Wrapper):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.inner.run(replace(order, shuffle=True), first, last)


class KeepsItsFirstEpoch(Wrapper):
    """The order of an epoch is computed once for each data set."""

    order: Order | None = None

    def load(self, dataset: Dataset) -> None:
        self.order = None
        super().load(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.order = self.order or order
        return self.inner.run(self.order, first, last)


class SeedsItsOwnOrder(Wrapper):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.inner.run(replace(order, seed=self.config.seed), first, last)


class TrainsOn40Percent(Wrapper):
    """The softmax gradient starts too few threads: the rest of each batch has none (S1)."""

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        assert self.data is not None
        batch, size = self.config.batch(order.n), self.size(order, step)
        some = order.indices(step * batch, step * batch + size)[: max(1, size * 2 // 5)]
        y = None if self.data.train_y is None else self.data.train_y[some]
        with honest(self.net, self.config.but(batch_size=None), before) as part:
            part.load(self.data.but(train_x=self.data.train_x[some], train_y=y))
            part.run(Order(0, 0, len(some), shuffle=False), 0, 1)
            return blended(self.net, before, part.state(), lambda name, u: len(some) / size)


# Which steps it takes


class MissesTheLastStepOfARange(Wrapper):
    """Reports it, and does not take it, unless it is the only one."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first < 2:
            return super().run(order, first, last)
        log = super().run(order, first, last - 1)
        now = self.inner.state()
        rest = self.inner.run(order, last - 1, last)
        self.inner.set_state(now.but(step=now.step + 1))
        return joined([log, rest])


class CountsStepsFromTheRange(Wrapper):
    """Takes steps 0..k-1 of the epoch for any range of k steps."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return super().run(order, 0, last - first)


class TrainsOnAnEmptyRange(Wrapper):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        if first == last:
            super().run(order, 0, 1)
        return log


# What it gives out and takes in


class ShowsItsStateLive(Wrapper):
    """state() gives its own arrays, and later steps write into them."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.live = self.inner.state()

    def state(self) -> State:
        now = self.inner.state()
        for mine, its in zip(
            (self.live.params, *self.live.slots.values()), (now.params, *now.slots.values()), strict=True
        ):
            mine[...] = its
        return self.live.but(step=now.step)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        self.state()
        return log


class ReadsItsStateBack(Wrapper):
    """state() gives its own arrays, and trains on with whatever is in them then."""

    out: State | None = None

    def state(self) -> State:
        self.out = self.inner.state()
        return self.out

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self._sync()
        log = super().run(order, first, last)
        self.out = None
        return log

    def set_state(self, state: State) -> None:
        self.out = None
        super().set_state(state)

    def _sync(self) -> None:
        if self.out is not None:
            self.inner.set_state(self.out)


class HoldsOnToWhatItWasGiven(Wrapper):
    """set_state keeps the caller's arrays and copies them when it trains."""

    given: State | None = None

    def set_state(self, state: State) -> None:
        self.given = state

    def _take(self) -> None:
        if self.given is not None:
            self.inner.set_state(self.given)
            self.given = None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self._take()
        return super().run(order, first, last)

    def state(self) -> State:
        self._take()
        return super().state()

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self._take()
        return super().predict(x, scale)


class RoundsItsState(Wrapper):
    """Gives out parameters that went through half precision."""

    def state(self) -> State:
        state = super().state()
        return replace(state, params=state.params.astype(np.float16).astype(np.float32))


class HidesItsMomentum(Wrapper):
    """Trains with momentum and gives out zeros."""

    def state(self) -> State:
        state = super().state()
        return state.but(slots={name: np.zeros_like(slot) for name, slot in state.slots.items()})


class GivesOutNoSlots(Wrapper):
    def state(self) -> State:
        return super().state().but(slots={})


class GivesOutASlotTooMany(Wrapper):
    """Zeros under a name that the optimizer does not have, as trainers without momentum once did."""

    def state(self) -> State:
        state = super().state()
        return state.but(slots={**state.slots, "velocity": np.zeros_like(state.params)})


class GivesOutAnArrayOfSlots(Wrapper):
    """State(params, velocity), as it once was."""

    def state(self) -> State:
        state = super().state()
        return State(state.params, np.zeros_like(state.params))  # type: ignore[arg-type]


class GivesOutHalfASlot(Wrapper):
    def state(self) -> State:
        state = super().state()
        return state.but(slots={name: slot[: len(slot) // 2] for name, slot in state.slots.items()})


class ClampsItsState(Wrapper):
    def set_state(self, state: State) -> None:
        super().set_state(replace(state, params=np.clip(state.params, -100, 100)))


class FlushesItsState(Wrapper):
    """Takes the smallest numbers for zero."""

    def set_state(self, state: State) -> None:
        super().set_state(replace(state, params=np.where(np.abs(state.params) < 1e-35, np.float32(0), state.params)))


class GivesOutDoubles(Wrapper):
    def state(self) -> State:
        state = super().state()
        return state.but(params=state.params.astype(np.float64))


class SharesItsParameters(Wrapper):
    """All trainers of this kind write to one buffer."""

    shared: dict[str, State] = {}  # noqa: RUF012 (that is the defect)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.net.name in self.shared:
            self.inner.set_state(self.shared[self.net.name])
        log = super().run(order, first, last)
        self.shared[self.net.name] = self.inner.state()
        return log

    def set_state(self, state: State) -> None:
        super().set_state(state)
        self.shared[self.net.name] = self.inner.state()


class Raises(Wrapper):
    """Cannot train a partial batch."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.partial(order, last - 1):
            raise IndexError("index 8 is out of bounds for axis 0 with size 5")
        return super().run(order, first, last)


# How it predicts


class PredictsBatchesOnly(Wrapper):
    """Evaluates into buffers of the training batch's size: what is beyond them stays as it was (S2)."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        capacity = min(len(x), self.config.batch_size or 97)
        out = np.zeros((len(x), *self.net.out_shape), np.float32)
        out[:capacity] = super().predict(x[:capacity], scale)
        return out


class PredictsWholeBatchesOnly(Wrapper):
    """Leaves out the samples after the last whole batch."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        whole = len(x) // (self.config.batch_size or 97) * (self.config.batch_size or 97)
        out = np.zeros((len(x), *self.net.out_shape), np.float32)
        out[:whole] = super().predict(x[:whole], scale)
        return out


class PredictsWithoutScale(Wrapper):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return super().predict(x, 1.0)


class PredictsWithOldWeights(Wrapper):
    """Copies the parameters for prediction once."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.other = honest(net, config, state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self.other.predict(x, scale)


class PredictsWithoutBias(Wrapper):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        params = self.inner.state().params
        for name, tensor in views(self.net, params).items():
            if name.endswith("bias"):
                tensor[...] = 0
        return honest(self.net, self.config, State(params)).predict(x, scale)


class PredictsIntoOneBuffer(Wrapper):
    """Gives out views of a buffer that the next prediction overwrites."""

    buffer: np.ndarray | None = None

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if self.buffer is None or len(self.buffer) < len(x):
            self.buffer = np.zeros((max(1000, len(x)), *self.net.out_shape), np.float32)
        self.buffer[: len(x)] = super().predict(x, scale)
        return self.buffer[: len(x)]


class PredictingDisturbs(Wrapper):
    """A prediction leaves something behind in the parameters."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        state = self.inner.state()
        self.inner.set_state(replace(state, params=state.params * np.float32(1 + 2**-20)))
        return out


class PredictsDoubles(Wrapper):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return super().predict(x, scale).astype(np.float64)


# Operations


def with_ops(**changed: type) -> type[Wrapper]:
    """A trainer whose operations of these kinds are replaced."""
    kinds: dict[str, type[Layer]] = {"relu": ReLU, "pool": MaxPool2d, "linear": Linear, "conv": Conv2d}
    table: OpTable = replace(TABLE, layers={**TABLE.layers, **{kinds[name]: op for name, op in changed.items()}})

    class WithOps(Wrapper):
        def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
            super().__init__(net, config, state)
            self.inner = LayerwiseTrainer(net, config, state, table)

    return WithOps


class OpenAtZero(ArrayReLU):
    """Takes 1 for the derivative at 0."""

    def forward(self, n: int) -> None:
        self.open = self.buffers.x[:n] >= 0  # y may take x's place
        super().forward(n)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            t.dx[:n] = t.dy[:n] * self.open


class LeakyBackward(ArrayReLU):
    """Lets the gradient through everywhere."""

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            t.dx[:n] = t.dy[:n]


class LastWins(ArrayMaxPool2d):
    """Among equals the last wins."""

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        x, dx, dy, k, s = t.x[:n], t.dx[:n], t.dy[:n], self.k, self.s
        dx[...] = 0
        for p, q in itertools.product(range(dy.shape[2]), range(dy.shape[3])):
            window = x[:, :, p * s : p * s + k, q * s : q * s + k].reshape(n, x.shape[1], -1)
            argmax = window.shape[2] - 1 - window[:, :, ::-1].argmax(axis=2)
            i, c = np.indices(argmax.shape)
            np.add.at(dx, (i, c, p * s + argmax // k, q * s + argmax % k), dy[:, :, p, q])


class EveryEqualWins(LastWins):
    """Every pixel equal to the maximum receives the gradient."""

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        x, dx, dy, k, s = t.x[:n], t.dx[:n], t.dy[:n], self.k, self.s
        dx[...] = 0
        for p, q in itertools.product(range(dy.shape[2]), range(dy.shape[3])):
            window = x[:, :, p * s : p * s + k, q * s : q * s + k]
            equal = window == window.max(axis=(2, 3), keepdims=True)
            dx[:, :, p * s : p * s + k, q * s : q * s + k] += equal * dy[:, :, p : p + 1, q : q + 1]


class MissesTheLastFeatures(ArrayLinear):
    """Sums the features in tiles of 16 and forgets the last, partial one; or the last feature where there is none."""

    def forward(self, n: int) -> None:
        t = self.buffers
        whole = (t.x.shape[1] - 1) // 16 * 16
        t.y[:n] = t.x[:n, :whole] @ t.w.T[:whole] + t.b


# Several epochs in one call


class ForgetsTheLastEpoch(Wrapper):
    """Reports all of them, and is left with the weights from before the last."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        logs = super().run_epochs(orders[:-1])
        kept = self.inner.state()
        logs += super().run_epochs(orders[-1:])
        self.inner.set_state(kept)
        return logs


class RepeatsTheFirstOrder(Wrapper):
    """Shuffles once for all of them."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return super().run_epochs([orders[0] for _ in orders])


class ReportsTheFirstEpoch(Wrapper):
    """Trains them all, and reads its log once."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return [super().run_epochs(orders)[0]] * len(orders)


class ReportsOneEpoch(Wrapper):
    """Trains them all, and gives one log."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return super().run_epochs(orders)[:1]


# Odd, and honest


class Lazy(Wrapper):
    """Takes the last step's update only when somebody asks for the state: whoever times it must ask."""

    pending: tuple[Order, int] | None = None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self._settle()
        if first == last:
            return super().run(order, first, last)
        before = super().run(order, first, last - 1)
        now = self.inner.state()
        log = self.inner.run(order, last - 1, last)
        self.inner.set_state(now)
        self.pending = (order, last - 1)
        return joined([before, log])

    def _settle(self) -> None:
        if self.pending is not None:
            (order, step), self.pending = self.pending, None
            self.inner.run(order, step, step + 1)

    def load(self, dataset: Dataset) -> None:
        self._settle()
        super().load(dataset)

    def state(self) -> State:
        self._settle()
        return super().state()

    def set_state(self, state: State) -> None:
        self.pending = None
        super().set_state(state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self._settle()
        return super().predict(x, scale)


def always(net: Net, config: TrainConfig) -> bool:
    return True


def classes(net: Net, config: TrainConfig) -> bool:
    return isinstance(net.loss, CrossEntropyLoss)


def images(net: Net, config: TrainConfig) -> bool:
    return isinstance(net.loss, MSELoss)


def batches(net: Net, config: TrainConfig) -> bool:
    return config.batch_size is not None


def relus(net: Net, config: TrainConfig) -> bool:
    return any(isinstance(layer, ReLU) for layer in net.layers)


def pools(net: Net, config: TrainConfig) -> bool:
    return any(isinstance(layer, MaxPool2d) for layer in net.layers)


def linears(net: Net, config: TrainConfig) -> bool:
    return any(isinstance(layer, Linear) for layer in net.layers)


def squares(net: Net, config: TrainConfig) -> bool:
    return any(len(place.shape) == 2 and place.shape[0] == place.shape[1] for place in param_slices(net))


@dataclass(frozen=True)
class Liar:
    """A planted defect.

    build : as a rung's.
    caught_by : checks that may be the first to see it.
    applies : whether the defect makes a difference to this net with these settings.
    settings : what the defect needs to be told to do.
    """

    build: type[Wrapper]
    caught_by: tuple[str, ...]
    applies: Callable[[Net, TrainConfig], bool] = always
    settings: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.build.__name__


UPDATE = ("update",)
MOMENTUM = {"momentum": 0.9}

LIARS = (
    Liar(WritesNothing, UPDATE),
    Liar(WritesNaN, UPDATE),
    Liar(WritesOneNaN, UPDATE),
    Liar(WritesOneInfinity, UPDATE),
    Liar(ReplaysItsLastUpdate, UPDATE),
    Liar(LagsOneStepBehind, UPDATE),
    Liar(AddsToWhatIsThere, UPDATE),
    Liar(DropsBiasGradients, UPDATE),
    Liar(DropsTheLastBias, UPDATE),
    Liar(LeavesTheFirstLayer, UPDATE),
    Liar(MissesTheLastRow, UPDATE),
    Liar(MissesTheLastColumns, UPDATE),
    Liar(SlightlyWrongInTheLastRow, UPDATE),
    Liar(QuarterOfAPercent, UPDATE),
    Liar(WrongInTheLastPartialBatch, UPDATE, batches),
    Liar(SkipsTheLastPartialBatch, UPDATE, batches),
    Liar(WrongOnABatchOfOne, UPDATE, batches),
    Liar(FlipsALastBit, ("update", "repeat")),
    Liar(ReportsALooseBit, ("repeat",)),
    Liar(TransposesSquareWeights, UPDATE, squares),
    Liar(SumsOverTheBatch, UPDATE),
    Liar(ForgetsThePixelsInTheMean, UPDATE, images),
    Liar(IgnoresMomentum, UPDATE, settings=MOMENTUM),
    Liar(KeepsItsMomentumToItself, UPDATE, settings=MOMENTUM),
    Liar(DampensMomentum, UPDATE, settings=MOMENTUM),
    Liar(IgnoresNesterov, UPDATE, settings={**MOMENTUM, "nesterov": True}),
    Liar(IgnoresWeightDecay, UPDATE, settings={"weight_decay": 1e-8}),
    Liar(IgnoresClipping, UPDATE, settings={"clip_value": 5.0}),
    Liar(ClipsAtHalf, UPDATE, settings={"clip_value": 5.0}),
    Liar(IgnoresTheNorm, UPDATE, settings={"clip_norm": 5.0}),
    Liar(ClipsToHalfTheNorm, UPDATE, settings={"clip_norm": 5.0}),
    Liar(HasItsOwnRate, UPDATE),
    Liar(RoundsItsRate, UPDATE),
    Liar(HasItsOwnStart, ("loss", "correct", "update")),
    Liar(ReportsAWrongLoss, ("loss",)),
    Liar(ReportsASummedLoss, ("loss",)),
    Liar(ReportsTheLossAfterwards, ("loss",)),
    Liar(ReportsNoLoss, ("loss",)),
    Liar(CountsOneTooMany, ("correct",)),
    Liar(CountsTies, ("correct",), classes),
    Liar(ReportsFullBatches, ("size",), batches),
    Liar(ReportsOneNumber, ("log",), batches),
    Liar(ReplaysTheFirstBatch, UPDATE, batches),
    Liar(KeepsItsFirstData, ("loss", "correct")),
    Liar(KeepsItsFirstPixels, ("loss", "correct")),
    Liar(KeepsItsFirstScale, ("loss", "correct")),
    Liar(ScalesTwice, ("loss", "correct")),
    Liar(ScalesInPlace, ("data",)),
    Liar(ReadsSignedBytes, ("loss", "correct")),
    Liar(MixesUpLabels, ("loss", "correct"), classes),
    Liar(CountsIn16Bits, ("loss", "correct"), batches),
    Liar(NeverShuffles, ("loss", "correct"), batches),
    Liar(AlwaysShuffles, ("loss", "correct"), batches),
    Liar(KeepsItsFirstEpoch, ("rebuild",), batches),
    Liar(SeedsItsOwnOrder, ("loss", "correct"), batches),
    Liar(TrainsOn40Percent, UPDATE),
    Liar(ForgetsTheLastEpoch, ("epochs",)),
    Liar(RepeatsTheFirstOrder, ("epochs",), batches),
    Liar(ReportsTheFirstEpoch, ("epochs",)),
    Liar(ReportsOneEpoch, ("epochs",)),
    Liar(MissesTheLastStepOfARange, ("range", "rebuild", "disturbance"), batches),
    Liar(CountsStepsFromTheRange, ("size", "loss", "correct"), batches),
    Liar(TrainsOnAnEmptyRange, ("empty range",)),
    Liar(ShowsItsStateLive, ("copy",)),
    Liar(ReadsItsStateBack, ("copy",)),
    Liar(HoldsOnToWhatItWasGiven, ("loss", "correct", "update")),
    Liar(RoundsItsState, UPDATE),
    Liar(GivesOutDoubles, ("state",)),
    Liar(SharesItsParameters, ("loss", "correct", "rebuild", "disturbance")),
    Liar(HidesItsMomentum, ("slots",), settings=MOMENTUM),
    Liar(GivesOutNoSlots, ("slots",), settings=MOMENTUM),
    Liar(GivesOutASlotTooMany, ("slots",)),
    Liar(GivesOutAnArrayOfSlots, ("slots",)),
    Liar(GivesOutHalfASlot, ("state",), settings=MOMENTUM),
    Liar(ClampsItsState, ("round trip",)),
    Liar(FlushesItsState, ("round trip", "rebuild")),
    Liar(Raises, ("crash",), batches),
    Liar(PredictsBatchesOnly, ("predict",)),
    Liar(PredictsWholeBatchesOnly, ("predict",)),
    Liar(PredictsWithoutScale, ("predict",)),
    Liar(PredictsWithOldWeights, ("predict",)),
    Liar(PredictsWithoutBias, ("predict",)),
    Liar(PredictsIntoOneBuffer, ("predict",)),
    Liar(PredictingDisturbs, ("disturbance", "predict")),
    Liar(PredictsDoubles, ("output",)),
    Liar(with_ops(relu=OpenAtZero), UPDATE, relus, name="OpenAtZero"),
    Liar(with_ops(relu=LeakyBackward), UPDATE, relus, name="LeakyBackward"),
    Liar(with_ops(pool=LastWins), UPDATE, pools, name="LastWins"),
    Liar(with_ops(pool=EveryEqualWins), UPDATE, pools, name="EveryEqualWins"),
    Liar(with_ops(linear=MissesTheLastFeatures), ("loss", "correct"), linears, name="MissesTheLastFeatures"),
)

HONEST = (honest, Wrapper, Lazy)
