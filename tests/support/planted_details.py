"""Planted trainers that get one detail wrong, as programs by hand do: which norm, count, mask, or last batch.

Each fault has `lies`. Its honest twin is the same code, with the fault off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from liars import Wrapper
from planted_operations import Build, Planted, mixed
from planted_outsider import StepByStep
from planted_settings import of_general
from wrong_steps import OtherNumbers, with_update

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.nets import GELU, BatchNorm1d, BatchNorm2d, Conv2d, CrossEntropyLoss, Dropout, Linear, Net, Upsample2d
from warpladder.nets.params import param_slices
from warpladder.ops.update.array import ArrayUpdate
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Cosine, StepDecay
from warpladder.rungs.numpy import build as honest
from warpladder.trainers.base import State, StepLog, Trainer

# Batches and epochs


class DoublesALastSingleSample(StepByStep):
    """Makes twice the update of a last batch of exactly one sample."""

    lies = True

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if self.lies and log.size[0] == 1 < self.config.batch(order.n):
            own = self.inner.state()
            self.inner.set_state(own.but(params=own.params + (own.params - before.params)))


class FillsTheLastBatch(StepByStep):
    """Fills a partial batch up with the first samples of the epoch."""

    lies = True

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        batch, size = self.config.batch(order.n), int(log.size[0])
        if not self.lies or size == batch or self.data is None:
            return
        some = np.concatenate([order.indices(step * batch, order.n), order.indices(0, batch - size)])
        whole = {name: None if a is None else a[some] for name, a in (
            ("train_x", self.data.train_x), ("train_y", self.data.train_y), ("train_weight", self.data.train_weight),
        )}  # fmt: skip
        end = self.inner.state()
        with honest(self.net, self.config.but(batch_size=None, epochs=self.config.epochs), before) as full:
            full.load(self.data.but(**whole))
            full.run(Order(order.seed, order.epoch, batch, shuffle=False), 0, 1)
            self.inner.set_state(full.state().but(step=end.step))


class LogsByTheFullBatch(Wrapper):
    """Divides the loss that it logs by the size of a full batch; its training is right."""

    lies = True

    def log(self, order: Order, step: int, before: State, log: StepLog) -> StepLog:
        share = log.size / self.config.batch(order.n)
        return StepLog(log.loss * share, log.correct, log.size) if self.lies and log.has_loss else log


class BeginsAnEpochWithTheOneBefore(Wrapper):
    """Gathers the first batch of an epoch while the epoch before it ends, in that one's order."""

    lies = True

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        logs, before = [], None
        for order in orders:
            first = order if before is None or not self.lies else before
            parts = [self.inner.run(first, 0, 1), self.inner.run(order, 1, self.config.steps(order.n))]
            logs.append(StepLog.joined(parts) if self.config.has_loss(order.epoch) else parts[1])
            before = order
        return logs


class FadesAtAnEpochsEnd(Wrapper):
    """Takes one per cent off the slots after the last step of an epoch."""

    lies, share = True, 0.01

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        if not self.lies or step + 1 < self.config.steps(order.n):
            return state
        return state.but(slots={name: slot * np.float32(1 - self.share) for name, slot in state.slots.items()})


class LeavesAChannelsBias(Wrapper):
    """Never updates the second bias of the first layer that has several."""

    lies = True

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        places = [p for p in param_slices(self.net) if len(p.shape) == 1 and p.shape[0] > 1]
        if not places or not self.lies:
            return state
        params = state.params.copy()
        params[places[0].start + 1] = before.params[places[0].start + 1]
        return state.but(params=params)


class LeavesZeroGradientsAlone(Wrapper):
    """Makes no step, nor one of its slots, where a gradient is exactly 0, as optimizers of sparse rows do."""

    lies = True

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        momentum = self.config.optimizer.momentum  # type: ignore[attr-defined]
        (name,) = state.slots
        still = state.slots[name] == np.float32(momentum) * before.slot(name)
        if not self.lies or not still.any():
            return state
        params, slot = (
            np.where(still, before.params, state.params),
            np.where(still, before.slot(name), state.slots[name]),
        )
        return state.but(params=params, slots={name: slot})


# Numbers of a step


class HasTheRateOfTheEpochBefore(OtherNumbers):
    lies = True

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        late = self.config.steps(samples) if self.lies and first >= self.config.steps(samples) else 0
        return self.config.optimizer.numbers(self.config.rates(first - late, last - late, samples), first)


class DecaysAtTheFirstRate(OtherNumbers):
    """Takes AdamW's decay times the optimizer's rate, whatever the schedule leaves of it."""

    lies = True

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        out = self.config.numbers(first, last, samples).copy()
        if self.lies:
            optimizer: Any = self.config.optimizer
            out[:, -1] = optimizer.learning_rate * optimizer.weight_decay
        return out


class CorrectsByTheEpoch(OtherNumbers):
    """Counts the updates of Adam's corrections anew in each epoch."""

    lies = True

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        count = first % self.config.steps(samples) if self.lies else first
        return self.config.optimizer.numbers(self.config.rates(first, last, samples), count)


# Updates


def of_net(rule: type[ArrayUpdate]) -> Build:
    """A trainer with this update, which knows the net's tensors."""

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return with_update(type(rule.__name__, (rule,), {"places": param_slices(net)}))(net, config, state)

    return build


class ClipsEachLayer(ArrayUpdate):
    """Clips the norm of each layer's gradients, not that of all."""

    lies = True
    places: Any = ()

    def _clip_norm(self, limit: float) -> None:
        if not self.lies:
            return super()._clip_norm(limit)
        layers: dict[str, list[Any]] = {}
        for place in self.places:
            layers.setdefault(place.name.rpartition(".")[0], []).append(place)
        for some in layers.values():
            g = self.grads[some[0].start : some[-1].stop]
            g *= g.dtype.type(min(1.0, limit / (float(np.linalg.norm(g.astype(np.float64))) + 1e-6)))
        return None


class ClipsByTheNormBefore(ArrayUpdate):
    """Clips by the norm of the step before, which a kernel finds meanwhile."""

    lies = True
    before: float | None = None

    def _clip_norm(self, limit: float) -> None:
        norm = float(np.linalg.norm(self.grads.astype(np.float64)))
        used = self.before if self.lies and self.before is not None else norm
        self.before = norm
        self.grads *= self.grads.dtype.type(min(1.0, limit / (used + 1e-6)))


class AddsGradientsInHalves(ArrayUpdate):
    """Takes each gradient from a sum in half precision whose hardware flushes subnormal numbers."""

    lies = True

    def step(self, numbers: np.ndarray) -> None:
        if self.lies:
            half = self.grads.astype(np.float16).astype(self.grads.dtype)
            self.grads[...] = np.where(np.abs(self.grads) < 2.0**-14, 0, np.where(np.isfinite(half), half, self.grads))
        super().step(numbers)


class FlushesSubnormalHalves(ArrayUpdate):
    """Takes gradients for zero that are subnormal in half precision, and others as they are."""

    lies = True

    def step(self, numbers: np.ndarray) -> None:
        if self.lies:
            self.grads[np.abs(self.grads) < 2.0**-14] = 0
        super().step(numbers)


# Losses


class AddsSmoothingOnTop:
    """Takes nothing from the true class for what it gives to all."""

    lies = True

    def __init__(self: Any, *args: Any) -> None:
        super().__init__(*args)
        if self.lies:
            self.weight /= self.weight.dtype.type(1 - self.settings.label_smoothing)


class SmoothsOtherClassesAlone:
    """Gives the true class none of the mass of smoothing."""

    lies = True

    def __init__(self: Any, *args: Any) -> None:
        super().__init__(*args)
        if self.lies:
            classes = len(self.spread)
            self.spread *= self.spread.dtype.type(classes / (classes - 1))
            self.weight -= self.spread


class SmoothsByTheLabelsWeight:
    """Weighs all classes of a smoothed label as its own class."""

    lies = True

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        held, label = self.spread, self.target[:n]
        if self.lies:
            self.spread = (self.weight[label] * (held.sum() / self.weight.sum()))[:, None] * np.ones_like(held)
        super().forward(n, has_loss)  # type: ignore[misc]
        self.spread = held


class IgnoresClassesInTheLastBatch:
    """Takes all classes alike in a batch that is not full."""

    lies = True

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        held = self.weight, self.spread
        if self.lies and n < len(self.x):
            self.shares[:n] = 1 / n
            self.weight, self.spread = np.ones_like(self.weight), np.zeros_like(self.spread)
        super().forward(n, has_loss)  # type: ignore[misc]
        self.weight, self.spread = held


class DividesWeightedClassesByTheBatch:
    """Divides a mean of weighted classes by the number of samples, not by the sum of their weights."""

    lies = True

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        if self.lies:
            total = 1 / float(self.shares[:n].max() or 1)
            self.dx[:n] *= self.dx.dtype.type(total / n)


# Layers


class DrawsEveryOtherMask:
    """Keeps its mask for the step after."""

    lies, calls = True, 0

    def begin(self: Any, key: int, position: int) -> None:
        self.calls += 1
        if not self.lies or self.calls % 2 or self.mask is None:
            super().begin(key, position)  # type: ignore[misc]


class RoundsItsScale:
    """Holds 1 / (1 - p) in half precision."""

    lies = True

    def begin(self: Any, key: int, position: int) -> None:
        super().begin(key, position)  # type: ignore[misc]
        if self.lies:
            self.mask[...] = self.mask.astype(np.float16)


class KeepsTheLastSampleWhole:
    """Drops nothing of the last sample of a batch that is not full."""

    lies = True

    def forward(self: Any, n: int) -> None:
        if self.lies and n < len(self.mask):
            self.mask[n - 1] = self.layer.scale
        super().forward(n)  # type: ignore[misc]


class NormalisesLastBatchesByItsRunningStatistics:
    """Takes the running statistics for those of a batch that is not full."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        if self.lies and n < len(self.buffers.x):
            self.predict(n)


class KeepsStatisticsInLastBatches:
    """Moves no running statistics in a batch that is not full."""

    lies = True

    def forward(self: Any, n: int) -> None:
        t = self.buffers
        held = t.mean.copy(), t.var.copy()
        super().forward(n)  # type: ignore[misc]
        if self.lies and n < len(t.x):
            t.mean[...], t.var[...] = held


class CountsFullBatches:
    """Corrects the running variance by the numbers of a full batch."""

    lies = True

    def forward(self: Any, n: int) -> None:
        t, momentum = self.buffers, self.layer.momentum
        old = t.var.astype(np.float64)
        super().forward(n)  # type: ignore[misc]
        count, full = (rows * t.x[0].size // t.x.shape[1] for rows in (n, len(t.x)))
        if self.lies and count < full:
            of_batch = (t.var - (1 - momentum) * old) / momentum * (count - 1) / count
            t.var[...] = (1 - momentum) * old + momentum * of_batch * full / (full - 1)


class TakesTanhForErf:
    """Computes GELU's outputs by tanh, its derivatives by erf."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        if self.lies:
            x = self.buffers.x[:n]
            self.buffers.y[:n] = x / 2 * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x**3)))


class ReadsTheNextRowForPadding:
    """Reads the first pixel of the next row where the padding at the right is meant."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        t, k, p = self.buffers, self.layer.kernel_size, self.layer.padding
        if not self.lies or not p or k != 2 * p + 1 or self.layer.stride != 1:
            return
        x, rows = t.x[:n, :, :, 0], t.y.shape[2]
        for i in range(k):
            some = range(max(0, p - i - 1), min(rows, rows + p - i - 1))  # output rows whose next input row is inside
            below = x[:, :, some.start + i - p + 1 : some.stop + i - p + 1]
            t.y[:n, :, some.start : some.stop, -1] += np.einsum("ncr,oc->nor", below, t.w[:, :, i, p + 1])


class DropsTheLastColumnOfWindows:
    """Leaves a window's last column out of the gradient at an image's right edge."""

    lies = True

    def backward(self: Any, n: int) -> None:
        t, s = self.buffers, self.layer.scale_factor
        super().backward(n)  # type: ignore[misc]
        if self.lies and t.dx is not None:
            lost = t.dy[:n, :, :, -1]
            t.dx[:n, :, :, -1] -= lost.reshape(*lost.shape[:2], -1, s).sum(axis=-1)


class RoundsTheBias:
    """Adds biases in half precision."""

    lies = True

    def forward(self: Any, n: int) -> None:
        held = self.buffers.b.copy()
        if self.lies:
            self.buffers.b[...] = held.astype(np.float16)
        super().forward(n)  # type: ignore[misc]
        self.buffers.b[...] = held


def honest_twin(fault: type) -> type:
    """The same code, with the fault off."""
    return type(f"Honest{fault.__name__}", (fault,), {"lies": False})


def planted(
    fault: type, build: Callable[[type], Build], loss: type | None = None, layer: type | None = None, **settings: Any
) -> Planted:
    kind = layer or (type(settings["optimizer"]) if "optimizer" in settings else None)
    name = fault.__name__ if kind is None else f"{fault.__name__}-{kind.__name__}"
    return Planted(name, build(fault), build(honest_twin(fault)), loss, layer, settings)


def of_layer(kind: type, *faults: type) -> list[Planted]:
    return [planted(fault, lambda each: mixed(kind, each, "numpy"), None, kind) for fault in faults]


def _of_labels(*faults: type) -> list[Planted]:
    return [planted(fault, lambda each: of_general(each, "labelled"), CrossEntropyLoss) for fault in faults]


MOMENTUM: dict[str, Any] = {"optimizer": SGD(0.01, momentum=0.9)}
DETAILS: tuple[Planted, ...] = (
    *(planted(fault, lambda each: each) for fault in (
        DoublesALastSingleSample, FillsTheLastBatch, LogsByTheFullBatch, BeginsAnEpochWithTheOneBefore,
        LeavesAChannelsBias,
    )),
    *(planted(fault, lambda each: each, **MOMENTUM) for fault in (FadesAtAnEpochsEnd, LeavesZeroGradientsAlone)),
    planted(FadesAtAnEpochsEnd, lambda each: each, optimizer=Adam()),
    planted(HasTheRateOfTheEpochBefore, lambda each: each, schedule=StepDecay(every=2, gamma=0.5), epochs=6),
    planted(DecaysAtTheFirstRate, lambda each: each, optimizer=AdamW(), schedule=Cosine()),
    planted(CorrectsByTheEpoch, lambda each: each, optimizer=Adam()),
    planted(ClipsEachLayer, of_net, clip_norm=0.5),
    planted(ClipsByTheNormBefore, with_update, clip_norm=0.5),
    *(planted(fault, with_update) for fault in (AddsGradientsInHalves, FlushesSubnormalHalves)),
    planted(FlushesSubnormalHalves, with_update, optimizer=Adam()),
    *_of_labels(
        AddsSmoothingOnTop, SmoothsOtherClassesAlone, SmoothsByTheLabelsWeight, IgnoresClassesInTheLastBatch,
        DividesWeightedClassesByTheBatch,
    ),
    *of_layer(Dropout, DrawsEveryOtherMask, RoundsItsScale, KeepsTheLastSampleWhole),
    *(each for kind in (BatchNorm1d, BatchNorm2d) for each in of_layer(
        kind, NormalisesLastBatchesByItsRunningStatistics, KeepsStatisticsInLastBatches, CountsFullBatches
    )),
    *of_layer(GELU, TakesTanhForErf), *of_layer(Conv2d, ReadsTheNextRowForPadding, RoundsTheBias),
    *of_layer(Linear, RoundsTheBias), *of_layer(Upsample2d, DropsTheLastColumnOfWindows),
)  # fmt: skip
