"""Planted trainers whose fault is where a proof had not been: the first and the last epoch of a run, settings that show
only in long calls, labels of the last classes, a second data set of another kind, and a trainer that is closed.

Each fault has `lies`. Its honest twin is the same code, with the fault off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from liars import Wrapper, joined
from planted_outsider import StepByStep

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.optimizers import SGD
from warpladder.rungs.numpy import build as honest
from warpladder.trainers.base import State, StepLog

LONG = 3  # steps of the longest calls that are honest

# Epochs of a run


class BeginsUnshuffled(Wrapper):
    """Trains epoch 0 in the stored order: its shuffle was to be made while another epoch ran."""

    lies = True

    def run(self, order: Order, first: int, last: int) -> StepLog:
        seen = replace(order, shuffle=False) if self.lies and order.epoch == 0 else order
        return self.inner.run(seen, first, last)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return [self.run(order, 0, self.config.steps(order.n)) for order in orders]


class LosesTheRunsLastStep(StepByStep):
    """Leaves out the last step of the last epoch of its settings: nothing follows for which it would be gathered."""

    lies = True

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if self.lies and order.epoch == self.config.epochs - 1 and step == self.config.steps(order.n) - 1:
            self.skip(before)


class ClearsSlotsInTheFirstEpoch(StepByStep):
    """Begins epoch 0 without slots, also where it goes on from a state."""

    lies = True

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.lies and order.epoch == first == 0 < last:
            own = self.inner.state()
            self.inner.set_state(own.but(slots={name: np.zeros_like(slot) for name, slot in own.slots.items()}))
        return super().run(order, first, last)


class LosesTheFirstEpochInOneCall(Wrapper):
    """Trains epoch 1 twice where epoch 0 and 1 are one call."""

    lies = True

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        some = [orders[1], *orders[1:]] if self.lies and len(orders) > 1 and orders[0].epoch == 0 else orders
        return self.inner.run_epochs(some)


# Settings in long calls


class WithoutInLongCalls(Wrapper):
    """Trains without a setting in calls of more than a few steps."""

    lies = True
    without: ClassVar[dict[str, Any]] = {}

    def __init__(self, net: Any, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.other = honest(net, config.but(**self.without) if self.lies else config, state)

    def load(self, dataset: Dataset) -> None:
        super().load(dataset)
        self.other.load(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first <= LONG:
            return self.inner.run(order, first, last)
        self.other.set_state(self.inner.state())
        log = self.other.run(order, first, last)
        self.inner.set_state(self.other.state())
        return log

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        self.other.set_state(self.inner.state())
        logs = self.other.run_epochs(orders)
        self.inner.set_state(self.other.state())
        return logs


class LosesItsNormInLongCalls(WithoutInLongCalls):
    without: ClassVar = {"clip_norm": None}


class LosesItsValueInLongCalls(WithoutInLongCalls):
    without: ClassVar = {"clip_value": None}


class LosesItsDecayInLongCalls(WithoutInLongCalls):
    without: ClassVar = {"weight_decay": 0.0}


# Data sets and trainers


class KeepsTheWeightsOfTheDataBefore(Wrapper):
    """Weighs samples as those of the data set before, if the new one has no weights."""

    lies = True

    def load(self, dataset: Dataset) -> None:
        held = None if self.data is None else self.data.train_weight
        same = held is not None and len(held) == len(dataset.train_x)
        super().load(dataset.but(train_weight=held) if self.lies and same and dataset.train_weight is None else dataset)


class Prefetches(StepByStep):
    """Gathers the next batch of an epoch while it trains one, and takes it in the next step, also if another data set
    was loaded meanwhile.
    """

    lies = True
    held: Any = None  # name of the gathered batch, its order, step and data set

    def key(self, order: Order, step: int) -> Any:
        return order, step, None if self.lies else id(self.data)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            if self.held is not None and self.held[0] == self.key(order, step):
                logs.append(self._trained(*self.held[1:]))
            else:
                logs.append(self.inner.run(order, step, step + 1))
            self.held = None
            if step + 1 < self.config.steps(order.n):
                self.held = self.key(order, step + 1), order, step + 1, self.data
        return joined(logs) if logs else self.inner.run(order, first, last)

    def _trained(self, order: Order, step: int, data: Dataset) -> StepLog:
        assert self.data is not None
        if data is self.data or len(data.train_x) != len(self.data.train_x):
            return self.inner.run(order, step, step + 1)
        self.inner.load(data)
        log = self.inner.run(order, step, step + 1)
        self.inner.load(self.data)
        return log


class PrefetchesByNumber(Prefetches):
    """Names gathered batches by the number of the step alone, within as large an epoch."""

    def key(self, order: Order, step: int) -> Any:
        return (order.n if self.lies else order), step, id(self.data)


class ClosesForAll(Wrapper):
    """Frees what all trainers of a process share when one of them is closed."""

    lies = True
    closed: ClassVar[set[type]] = set()

    def __init__(self, net: Any, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.mine = 0

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return before if self.lies and self.mine < 0 else state

    def load(self, dataset: Dataset) -> None:
        super().load(dataset)
        everyone = type(self).__dict__.get("everyone") or []
        type(self).everyone = [*everyone, self]  # type: ignore[attr-defined]

    def close(self) -> None:
        for each in type(self).__dict__.get("everyone") or []:
            each.mine = -1
        super().close()


# Labels


class LosesTheLastClass(Wrapper):
    """Takes the last of its classes for the one before, in labels."""

    lies = True

    def load(self, dataset: Dataset) -> None:
        y, classes = dataset.train_y, self.net.out_shape[0]
        if self.lies and y is not None and y.ndim == 1 and classes > 2:
            dataset = dataset.but(train_y=np.where(y == classes - 1, classes - 2, y).astype(y.dtype))
        super().load(dataset)


class LosesTheFirstClass(Wrapper):
    """Takes class 0 for class 1, in labels: numbers of classes begin with 1, it thinks."""

    lies = True

    def load(self, dataset: Dataset) -> None:
        y = dataset.train_y
        if self.lies and y is not None and y.ndim == 1 and self.net.out_shape[0] > 2:
            dataset = dataset.but(train_y=np.where(y == 0, 1, y).astype(y.dtype))
        super().load(dataset)


class HoldsLabelsInSevenBits(Wrapper):
    lies = True

    def load(self, dataset: Dataset) -> None:
        y = dataset.train_y
        if self.lies and y is not None and y.ndim == 1:
            dataset = dataset.but(train_y=(y % 128).astype(y.dtype))
        super().load(dataset)


class RoundsTargets(Wrapper):
    """Takes binary targets for 0 or 1."""

    lies = True

    def load(self, dataset: Dataset) -> None:
        y = dataset.train_y
        super().load(dataset.but(train_y=np.round(y)) if self.lies and y is not None and y.ndim == 2 else dataset)


# States


class MasksAfterAStateAsAtTheBeginning(StepByStep):
    """Makes the first step after a state was set as the first one of the epoch: its masks begin again."""

    lies, is_set = True, False

    def set_state(self, state: State) -> None:
        super().set_state(state)
        self.is_set = True

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.lies and self.is_set and first:
            self.is_set = False
            some = self.data
            here = order.indices(
                first * self.config.batch(order.n), min(order.n, (first + 1) * self.config.batch(order.n))
            )
            if some is not None and len(here) == self.config.batch(order.n):
                whole = order.indices(0, order.n).copy()
                n = len(here)
                x, y, w = some.train_x.copy(), some.train_y, some.train_weight
                x[whole[:n]] = some.train_x[here]
                parts: dict[str, Any] = {"train_x": x}
                for name, a in (("train_y", y), ("train_weight", w)):
                    if a is not None:
                        parts[name] = a.copy()
                        parts[name][whole[:n]] = a[here]
                self.inner.load(some.but(**parts))
                log = self.inner.run(order, 0, 1)
                self.inner.load(some)
                return log if last == first + 1 else joined([log, super().run(order, first + 1, last)])
        self.is_set = False
        return super().run(order, first, last)


class PredictsByTheStatisticsBefore(Wrapper):
    """Predicts with the running statistics from before the last state was set, until a step is made."""

    lies = True
    before: Any = None

    def set_state(self, state: State) -> None:
        self.before = self.inner.state().copied().buffers
        super().set_state(state)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.before = None if last > first else self.before
        return super().run(order, first, last)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if not self.lies or self.before is None:
            return self.inner.predict(x, scale)
        own = self.inner.state().copied()
        self.inner.set_state(own.but(buffers=self.before))
        out = self.inner.predict(x, scale)
        self.inner.set_state(own)
        return out


class WeighsNotWithoutLosses(Wrapper):
    """Takes all samples alike in epochs without losses."""

    lies = True

    def __init__(self, net: Any, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.alike = honest(net, config, state)

    def load(self, dataset: Dataset) -> None:
        super().load(dataset)
        self.alike.load(dataset.but(train_weight=None))

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if not self.lies or self.config.has_loss(order.epoch):
            return self.inner.run(order, first, last)
        self.alike.set_state(self.inner.state())
        log = self.alike.run(order, first, last)
        self.inner.set_state(self.alike.state())
        return log

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return [self.run(order, 0, self.config.steps(order.n)) for order in orders]


class ShrinksWeightedRests(StepByStep):
    """Makes a partial batch's update smaller by the share that it has of a full one, where samples have weights."""

    lies = True

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        share = np.float32(log.size[0] / self.config.batch(order.n))
        if self.lies and share < 1 and self.data is not None and self.data.train_weight is not None:
            own = self.inner.state()
            self.inner.set_state(own.but(params=before.params + share * (own.params - before.params)))


#: Faults, each with the settings that it needs besides momentum, and the kind of net and data that shows it.
UNVISITED: dict[type[Wrapper], tuple[str, dict[str, Any]]] = {
    BeginsUnshuffled: ("plain", {}),
    LosesTheRunsLastStep: ("plain", {}),
    ClearsSlotsInTheFirstEpoch: ("plain", {}),
    LosesTheFirstEpochInOneCall: ("plain", {}),
    LosesItsNormInLongCalls: ("plain", {"clip_norm": 20.0}),
    LosesItsValueInLongCalls: ("plain", {"clip_value": 5.0}),
    LosesItsDecayInLongCalls: ("plain", {"optimizer": SGD(0.02, momentum=0.9, weight_decay=1e-7)}),
    KeepsTheWeightsOfTheDataBefore: ("weighted", {}),
    Prefetches: ("plain", {}),
    PrefetchesByNumber: ("plain", {}),
    ClosesForAll: ("plain", {}),
    LosesTheLastClass: ("many", {}),
    LosesTheFirstClass: ("many", {}),
    HoldsLabelsInSevenBits: ("many", {}),
    RoundsTargets: ("targets", {}),
    MasksAfterAStateAsAtTheBeginning: ("dropped", {}),
    PredictsByTheStatisticsBefore: ("normal", {}),
    WeighsNotWithoutLosses: ("weighted", {"loss_every": 3}),
    ShrinksWeightedRests: ("weighted", {}),
}
