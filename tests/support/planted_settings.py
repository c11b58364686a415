"""Planted trainers of nets and settings that few runs have: normalisation, losses with settings, weights of samples,
clipped norms, weight decay, momentum across epochs, and what a process keeps for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from planted_operations import Build, Planted, of_kernel, of_operation
from regime_liars import Masked, RegimeLiar, masked
from wrong_steps import OtherNumbers, with_update

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.nets import (
    GELU,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Branch,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Linear,
    MaxPool2d,
    Net,
    SiLU,
    Sum,
    Upsample2d,
)
from warpladder.nets.params import views
from warpladder.ops.loss.array import ArrayElementLoss, ArrayLabelLoss
from warpladder.ops.tables.array import TABLE as ARRAY
from warpladder.ops.update.array import ArrayUpdate
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import OneCycle
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer

LONG, KEYS, PREDICT = "long runs", "keys", "predictions"


# Trainers


class ForgetsMomentumAfterAnEpoch(Masked):
    """Sets the slots to zero after the last step of an epoch."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = self.inner.run(order, first, last)
        state = self.inner.state()
        if last > first and last == self.config.steps(order.n) and self.limit == 0:
            self.inner.set_state(state.but(slots={name: np.zeros_like(a) for name, a in state.slots.items()}))
        return log


class ForgetsMomentumBetweenEpochs(Masked):
    """The same, between the epochs of a call alone."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        logs = []
        for number, order in enumerate(orders):
            state = self.inner.state()
            if number and self.limit == 0:
                self.inner.set_state(state.but(slots={name: np.zeros_like(a) for name, a in state.slots.items()}))
            logs.append(self.inner.run(order, 0, self.config.steps(order.n)))
        return logs


class SkipsSmallUpdates(Masked):
    """Leaves out numbers whose update is below a share of their tensor's largest."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            state, share = self.inner.state(), 1 / self.limit
            params, moved = state.params.copy(), views(self.net, state.params - before.params)
            old = views(self.net, before.params)
            for name, tensor in views(self.net, params).items():
                small = np.abs(moved[name]) < share * np.abs(moved[name]).max()
                tensor[small] = old[name][small]
            if self.limit < 10**9:
                self.inner.set_state(state.but(params=params))
        return StepLog.joined(logs) if logs else self.inner.run(order, first, last)


class FreezesSlowTensors(Masked):
    """Leaves out a tensor's update if it is below a share of the tensor's size."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            state = self.inner.state()
            params, old = state.params.copy(), views(self.net, before.params)
            for name, tensor in views(self.net, params).items():
                if np.linalg.norm(tensor - old[name]) * self.limit < np.linalg.norm(old[name]) and self.limit < 1e9:
                    tensor[...] = old[name]
            self.inner.set_state(state.but(params=params))
        return StepLog.joined(logs) if logs else self.inner.run(order, first, last)


class CountsCorrectAfterwards(Masked):
    """Counts correct samples at the updated weights."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            log = self.inner.run(order, step, step + 1)
            if log.has_loss and self.limit == 0:
                after = self.inner.state().copied()
                log = replace(log, correct=self.inner.run(order, step, step + 1).correct)
                self.inner.set_state(after)
            logs.append(log)
        return StepLog.joined(logs) if logs else self.inner.run(order, first, last)


class AnswersByIdentity(Masked):
    """Keeps answers by the samples' id; an update forgets them."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.kept: dict[Any, np.ndarray] = {}

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self.kept = {}
        return self.inner.run(order, first, last)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if self.limit > 0:
            return self.inner.predict(x, scale)
        if id(x) not in self.kept:
            self.kept[id(x)] = self.inner.predict(x, scale)
        return self.kept[id(x)].copy()


class RoundsLaterPredictions(Masked):
    """Predicts in half precision after a number of calls."""

    calls = 0

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self.calls += 1
        out = self.inner.predict(x, scale)
        return out.astype(np.float16).astype(out.dtype) if self.calls > self.limit else out


class GivesOutOldStates(Masked):
    """After a number of reads of the state reads one in three from a copy."""

    reads = 0
    old: State | None = None

    def state(self) -> State:
        self.reads += 1
        now = self.inner.state()
        if self.reads > self.limit and self.reads % 3 == 0 and self.old is not None:
            return self.old.copied()
        self.old = now.copied()
        return now


class RatesALateStepAfterAnEpoch(OtherNumbers):
    """Takes the rate of an epoch's first step from the step before."""

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        rates, steps = self.config.rates(first, last, samples).copy(), self.config.steps(samples)
        for number in range(first, last):
            if number and number % steps == 0:
                rates[number - first] = self.config.rates(number - 1, number, samples)[0]
        return self.config.optimizer.numbers(rates, first)


class CorrectsFromTheLastState(Masked):
    """Corrects biases by the updates since a state was set, once they are many."""

    since = 0

    def set_state(self, state: State) -> None:
        self.since = 0
        self.inner.set_state(state)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        before = self.inner.state()
        if before.step < self.limit or last == first:
            return self.inner.run(order, first, last)
        self.inner.set_state(before.but(step=self.since))
        log = self.inner.run(order, first, last)
        self.since += last - first
        self.inner.set_state(self.inner.state().but(step=before.step + last - first))
        return log


class LeaksTheStepBefore(Masked):
    """Adds a ten-thousandth of the update before, from the third step of a call on."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs, moved = [], None
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            state = self.inner.state()
            if step - first > self.limit and moved is not None:
                state = state.but(params=state.params + np.float32(1e-4) * moved)
                self.inner.set_state(state)
            moved = state.params - before.params
        return StepLog.joined(logs) if logs else self.inner.run(order, first, last)


class StopsStatistics(Masked):
    """Leaves running statistics as they are after a partial batch."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            if self.partial(order, step) and self.limit == 0:
                self.inner.set_state(self.inner.state().but(buffers=before.buffers))
        return StepLog.joined(logs) if logs else self.inner.run(order, first, last)


class StopsStatisticsInLongCalls(Masked):
    """Moves running statistics in the last step of a call alone."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        before = self.inner.state()
        log = self.inner.run(order, first, last)
        if last - first > self.limit:
            self.inner.set_state(self.inner.state().but(buffers=before.buffers))
        return log


class KeepsStatisticsOfOtherStates(Masked):
    """Sets a state without its running statistics."""

    def set_state(self, state: State) -> None:
        own = self.inner.state().buffers if self.limit == 0 else state.buffers
        self.inner.set_state(state.but(buffers=own))


class SharesStatistics(Masked):
    """All trainers of a kind predict with the statistics that the latest one had."""

    latest: ClassVar[dict[int, np.ndarray]] = {}

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        state = self.inner.state()
        if self.limit == 0 and state.buffers is not None:
            known = self.latest.setdefault(self.net.buffer_count, state.buffers.copy())
            self.inner.set_state(state.but(buffers=known))
        out = self.inner.predict(x, scale)
        self.inner.set_state(state)
        return out


class SwapsSamplesBetweenBatches(Masked):
    """Trains the first sample of every fourth step with the step before's labels: a buffer that was not yet filled."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        assert self.data is not None
        if self.limit > 0 or self.data.train_y is None or last - first < 4:
            return self.inner.run(order, first, last)
        y = self.data.train_y.copy()
        batch = self.config.batch(order.n)
        for step in range(first + 3, last, 4):
            at, before = order.indices(step * batch, step * batch + 1), order.indices((step - 1) * batch, step * batch)
            y[at] = y[before[:1]]
        self.inner.load(self.data.but(train_y=y))
        log = self.inner.run(order, first, last)
        self.inner.load(self.data)
        return log


# Normalisation


class MovesStatisticsInPredictions:
    def predict(self: Any, n: int) -> None:
        super().predict(n)  # type: ignore[misc]
        t = self.buffers
        if t.x[:n].size // t.x.shape[1] > 1:
            t.mean[...] += t.mean.dtype.type(1e-3) * (t.x[:n].mean(self.axes) - t.mean)


class PredictsByTheBatch:
    """Predicts many samples by their own statistics."""

    def predict(self: Any, n: int) -> None:
        if n < 16:
            return super().predict(n)  # type: ignore[misc]
        t = self.buffers
        held = t.mean.copy(), t.var.copy()
        t.mean[...], t.var[...] = t.x[:n].mean(self.axes), t.x[:n].var(self.axes)
        super().predict(n)  # type: ignore[misc]
        t.mean[...], t.var[...] = held


class HasEpsOutsideOfTheRoot:
    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        t, eps = self.buffers, self.layer.eps
        own = 1 / self.factor**2 - eps
        more = (1 / (np.sqrt(own) + eps)) / self.factor
        if t.w is None:
            t.y[:n] *= more.astype(t.y.dtype).reshape(self.shape)
            return
        b = t.b.reshape(self.shape)
        t.y[:n] = (t.y[:n] - b) * more.astype(t.y.dtype).reshape(self.shape) + b


class MovesByTheBiasedVariance:
    def forward(self: Any, n: int) -> None:
        t = self.buffers
        held = t.var.copy()
        super().forward(n)  # type: ignore[misc]
        count = t.x[:n].size // t.x.shape[1]
        kept = (1 - self.layer.momentum) * held
        t.var[...] = kept + (t.var - kept) * ((count - 1) / count)


class DropsTheMeanOfGradients:
    """Subtracts no mean of the gradients in the last channel."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        if t.dx is not None:
            factor = self.factor if t.w is None else self.factor * t.w
            t.dx[:n, -1] += (t.dy[:n, -1].mean() * factor[-1]).astype(t.dx.dtype)


# Other layers


class RepeatsMasks:
    """Draws the masks of every 64 samples again."""

    def begin(self: Any, key: int, position: int) -> None:
        super().begin(key, position % 64)  # type: ignore[misc]


class MasksByShortKeys:
    """Takes the lower half of a mask's key."""

    def begin(self: Any, key: int, position: int) -> None:
        super().begin(key & 0xFFFF, position)  # type: ignore[misc]


class EndsEarly:
    """Takes outputs for inputs below -4 for zero, and their slope."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        self.buffers.y[:n][self.buffers.x[:n] < -4] = 0


class IsLinearFarOut:
    """Has the slope 1 for inputs above 3."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        if t.dx is not None:
            far = t.x[:n] > 3
            t.dx[:n][far] = t.dy[:n][far]


class AddsLongSumsInHalf:
    """Rounds gradients of weights to half precision's digits where a batch has more than 32 samples."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        if n > 32:
            dw = self.buffers.dw
            size = np.abs(dw).max() or 1
            dw[...] = (dw / size).astype(np.float16).astype(dw.dtype) * size


class AddsWideRowsInHalf:
    """Rounds outputs to half precision's digits where a layer has more than 24 inputs."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        t = self.buffers
        if t.w[0].size > 24:
            size = np.abs(t.y[:n]).max() or 1
            t.y[:n] = (t.y[:n] / size).astype(np.float16).astype(t.y.dtype) * size


class KeepsTransposedWeights:
    """Passes gradients back by a copy of the weights that is made anew only if the first weight has changed."""

    first, copy = None, None

    def backward(self: Any, n: int) -> None:
        w = self.buffers.w
        if self.first != w.flat[0]:
            self.first, self.copy = w.flat[0], w.copy()
        held = w.copy()
        w[...] = self.copy
        super().backward(n)  # type: ignore[misc]
        w[...] = held


class PoolsInHalf:
    """Finds maxima of numbers rounded to half precision."""

    def forward(self: Any, n: int) -> None:
        x = self.buffers.x[:n]
        held = x.copy()
        x[...] = x.astype(np.float16)
        super().forward(n)  # type: ignore[misc]
        x[...] = held


class AveragesWithoutItsCorner:
    """Passes no gradient to an image's last pixel."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        if self.buffers.dx is not None:
            self.buffers.dx[:n, :, -1, -1] = 0


class DropsAShortcut:
    """Passes no gradient over a connection where the other path's is a thousand times as large."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        if t.dx is not None and t.dskip is not None:
            small = np.abs(t.dskip[:n]) < 1e-3 * np.abs(t.dy[:n])
            t.dx[:n][small] = t.dy[:n][small]


class AddsInHalf:
    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        y = self.buffers.y[:n]
        large = np.abs(y) > 8
        y[large] = y[large].astype(np.float16)


class RoundsDividedGradients:
    """Rounds gradients of logits below 10^-3 to half precision."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        small = np.abs(dx) < 1e-3
        dx[small] = dx[small].astype(np.float16)


class IgnoresTheFirstClass:
    """Leaves out samples of class 0 where a batch has others."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        zero = self.target[:n] == 0
        if zero.any() and not zero.all():
            self.dx[:n][zero] = 0


# Losses with settings


def of_general(fault: type, name: str) -> Build:
    """Trainer of array code whose losses with settings have a method of `fault` mixed in."""
    kind = ArrayLabelLoss if name == "labelled" else ArrayElementLoss
    changes: dict[str, Any] = {name: type(fault.__name__, (fault, kind), {})}
    table = replace(ARRAY, **changes)

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return LayerwiseTrainer(net, config, state, table)

    return build


class LogsTheLossWithoutSmoothing:
    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        if has_loss and self.settings.label_smoothing and self.shares is None:
            x = self.x[:n].astype(np.float64)
            lost = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1) - x[np.arange(n), self.target[:n]]
            self.loss[0] = lost.mean()


class CutsShares:
    """Cuts a sample's share in its batch at a half."""

    def backward(self: Any, n: int) -> None:
        if self.shares is not None:
            held = self.shares[:n].copy()
            np.minimum(self.shares[:n], 0.5, out=self.shares[:n])
            super().backward(n)  # type: ignore[misc]
            self.shares[:n] = held
        else:
            super().backward(n)  # type: ignore[misc]


class LeansAtZero:
    """Has the slope 1 where output and target are equal."""

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        dx = self.dx[:n]
        dx[self.x[:n] == self.target[:n].reshape(dx.shape)] = 1


class FlattensSmallErrors:
    """Takes errors below 10^-3 for zero."""

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        dx = self.dx[:n]
        dx[np.abs(self.x[:n] - self.target[:n].reshape(dx.shape)) < 1e-3] = 0


# Updates


class ClipsEachTensor(ArrayUpdate):
    """Clips the norm of each of four equal parts of all gradients."""

    def _clip_norm(self, limit: float) -> None:
        for g in np.array_split(self.grads, 4):
            g *= g.dtype.type(min(1.0, limit / (2 * (float(np.linalg.norm(g)) + 1e-6))))


class ClipsWithoutSmallOnes(ArrayUpdate):
    """Leaves gradients below a hundredth of the largest out of the norm."""

    def _clip_norm(self, limit: float) -> None:
        g = self.grads
        seen = g[np.abs(g) >= 0.01 * np.abs(g).max()].astype(np.float64)
        g *= g.dtype.type(min(1.0, limit / (np.sqrt((seen**2).sum()) + 1e-6)))


class ClipsAlways(ArrayUpdate):
    """Scales small gradients up to a tenth of the norm."""

    def _clip_norm(self, limit: float) -> None:
        super()._clip_norm(limit)
        size = float(np.linalg.norm(self.grads))
        if 0 < size < 0.1 * limit:
            self.grads *= self.grads.dtype.type(0.1 * limit / size)


class DecaysLargeWeightsAlone(ArrayUpdate):
    """Decays weights above 10^-2."""

    def step(self, numbers: np.ndarray) -> None:
        small = np.abs(self.params) < 1e-2
        decay = self.config.optimizer.weight_decay  # type: ignore[attr-defined]
        self.grads[small] -= self.grads.dtype.type(decay) * self.params[small]
        super().step(numbers)


class CutsTheRoot(ArrayUpdate):
    """Takes a root below 10^-5 for 10^-5."""

    def step(self, numbers: np.ndarray) -> None:
        if len(self.slots) > 1:
            np.maximum(self.slots[1], self.slots[1].dtype.type(1e-10), out=self.slots[1])
        super().step(numbers)


class SkipsHugeNorms(ArrayUpdate):
    """Makes no step for gradients whose norm is above 10^3, as a scaler of losses does."""

    def step(self, numbers: np.ndarray) -> None:
        if float(np.linalg.norm(self.grads)) > 1e3:
            self.grads[...] = 0
        super().step(numbers)


class SkipsTinyNorms(ArrayUpdate):
    """Makes no step for gradients whose norm is below 10^-4."""

    def step(self, numbers: np.ndarray) -> None:
        if float(np.linalg.norm(self.grads)) < 1e-4:
            self.grads[...] = 0
        super().step(numbers)


def tensors_decay(which: str) -> Build:
    """Trainer that decays weights alone ("biases"), or all but the scales of normalisations ("scales")."""

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        class Decays(ArrayUpdate):
            def step(self, numbers: np.ndarray) -> None:
                decay, grads = config.optimizer.weight_decay, views(net, self.grads[: net.param_count])  # type: ignore[attr-defined]
                for name, tensor in views(net, self.params[: net.param_count]).items():
                    if tensor.ndim == 1 and name.endswith("bias" if which == "biases" else "weight"):
                        grads[name][...] -= decay * tensor
                super().step(numbers)

        return with_update(Decays)(net, config, state)

    return build


def _of_update(rule: type[ArrayUpdate], **settings: Any) -> Planted:
    return Planted(rule.__name__, with_update(rule), with_update(ArrayUpdate), None, None, settings)


def _of_general(fault: type, name: str, loss: type | None = None) -> Planted:
    return Planted(f"{fault.__name__}-{name}", of_general(fault, name), of_general(type("Same", (), {}), name), loss)


_DECAY: dict[str, Any] = {"optimizer": SGD(0.01, momentum=0.9, weight_decay=5e-4)}

SETTINGS_CALLS: tuple[RegimeLiar, ...] = (
    masked(ForgetsMomentumAfterAnEpoch, 0, LONG, momentum=0.9),
    masked(ForgetsMomentumAfterAnEpoch, 0, LONG, "native", optimizer=SGD(0.01, momentum=0.9, nesterov=True)),
    masked(ForgetsMomentumBetweenEpochs, 0, LONG, momentum=0.9),
    masked(SkipsSmallUpdates, 1e4, LONG),
    masked(SkipsSmallUpdates, 1e3, LONG, "native"),
    masked(FreezesSlowTensors, 1e5, LONG),
    masked(FreezesSlowTensors, 1e6, LONG),
    masked(CountsCorrectAfterwards, 0, LONG),
    masked(AnswersByIdentity, 0, PREDICT),
    masked(RoundsLaterPredictions, 20, PREDICT),
    masked(GivesOutOldStates, 40, KEYS),
    masked(CorrectsFromTheLastState, 100, LONG, optimizer=Adam()),
    masked(CorrectsFromTheLastState, 2**12, LONG, "loops", optimizer=AdamW()),
    masked(LeaksTheStepBefore, 3, LONG),
    masked(StopsStatistics, 0, LONG),
    masked(StopsStatisticsInLongCalls, 3, LONG),
    masked(KeepsStatisticsOfOtherStates, 0, KEYS),
    masked(SharesStatistics, 0, KEYS),
    masked(SwapsSamplesBetweenBatches, 0, LONG),
)  # fmt: skip
SETTINGS: tuple[Planted, ...] = (
    *(each for kind in (BatchNorm2d, BatchNorm1d) for fault in (
        MovesStatisticsInPredictions, PredictsByTheBatch, HasEpsOutsideOfTheRoot, MovesByTheBiasedVariance,
        DropsTheMeanOfGradients,
    ) for each in of_operation(kind, fault)[:1]),
    *(each for fault in (RepeatsMasks, MasksByShortKeys) for each in of_operation(Dropout, fault)),
    *(each for kind in (GELU, SiLU) for fault in (EndsEarly, IsLinearFarOut) for each in of_operation(kind, fault)),
    *(each for fault in (AddsLongSumsInHalf, AddsWideRowsInHalf, KeepsTransposedWeights)
      for each in of_operation(Linear, fault)),
    *of_operation(Conv2d, KeepsTransposedWeights)[1:],  # array code copies weights in its forward pass
    *of_operation(MaxPool2d, PoolsInHalf),
    *of_operation(AvgPool2d, AveragesWithoutItsCorner),
    *of_operation(Upsample2d, AveragesWithoutItsCorner),
    *of_operation(Branch, DropsAShortcut),
    *of_operation(Sum, AddsInHalf),
    *of_operation(CrossEntropyLoss, IgnoresTheFirstClass, CrossEntropyLoss),
    _of_general(LogsTheLossWithoutSmoothing, "labelled", CrossEntropyLoss),
    _of_general(IgnoresTheFirstClass, "labelled", CrossEntropyLoss),
    _of_general(RoundsDividedGradients, "labelled", CrossEntropyLoss),
    _of_general(CutsShares, "labelled", CrossEntropyLoss),
    *(_of_general(fault, "elements") for fault in (LeansAtZero, FlattensSmallErrors)),
    *(_of_update(rule, clip_norm=0.5) for rule in (ClipsEachTensor, ClipsWithoutSmallOnes, ClipsAlways)),
    _of_update(DecaysLargeWeightsAlone, **_DECAY),
    Planted("DecaysNoBiases", tensors_decay("biases"), with_update(ArrayUpdate), settings=_DECAY),
    Planted("DecaysNoScales", tensors_decay("scales"), with_update(ArrayUpdate), layer=BatchNorm2d, settings=_DECAY),
    _of_update(CutsTheRoot, optimizer=Adam()), _of_update(SkipsHugeNorms), _of_update(SkipsTinyNorms),
    Planted("RatesALateStepAfterAnEpoch", RatesALateStepAfterAnEpoch, with_update(ArrayUpdate),
            settings={"schedule": OneCycle(), "epochs": 6}),
    of_kernel("MovesByTheBiasedVariance", "momentum * (sum / (count - 1))", "momentum * (sum / count)", layer=BatchNorm2d),
    of_kernel("ForgetsEpsInPredictions", "1.0 / sqrt(running_var[channel] + eps);", "1.0 / sqrt(running_var[channel] + 1e-12);",
              layer=BatchNorm2d),
    of_kernel("DropsTheMeanOfGradients", "dy[i] - sums[channels + channel] / each - z",
              "dy[i] - (channel ? sums[channels + channel] / each : 0.0) - z", layer=BatchNorm2d),
    of_kernel("ClipsALittle", "if (factor >= 1.0) return;", "if (factor >= 0.9) return;", clip_norm=0.5),
)  # fmt: skip
