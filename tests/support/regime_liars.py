"""Liars of the regimes that a proof visits: each is honest in short calls on ordinary data, and lies elsewhere.

Every liar has an honest twin, `Twin`: the same code with a limit that nothing reaches. They wrap an honest trainer of
any rung (`FORMS`), or replace an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from liars import Wrapper, joined

from warpladder import ladder
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.nets import CrossEntropyLoss, MSELoss, Net
from warpladder.ops.cross_entropy.array import ArrayCrossEntropy
from warpladder.ops.mse.array import ArrayMSE
from warpladder.ops.relu.array import ArrayReLU
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer

#: Rungs that a liar wraps: array code, loops, machine code, CUDA kernels on the emulator.
FORMS = {"numpy": "numpy", "loops": "loops", "native": "native", "cuda": "naive:device=emulated"}
NEVER = 10**15  # a limit that nothing reaches


class Masked(Wrapper):
    """A trainer of any rung, with a limit beyond which it lies; `limit` is NEVER in its honest twin."""

    limit: float = NEVER
    form = "numpy"

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        if self.form != "numpy":
            self.inner: Trainer = self.built(self.settings(config), state)
        self.made = 0  # steps since it was built

    def built(self, config: TrainConfig, state: State) -> Trainer:
        """Honest trainer of its form."""
        return ladder.find(FORMS[self.form]).build(self.net, config, state)

    def skips(self, order: Order, step: int, before: State) -> bool:
        """True if a step is left out."""
        return False

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.stretch(order, first, last, last - first)

    def stretch(self, order: Order, first: int, last: int, length: int) -> StepLog:
        """Log of steps of a call of `length` steps, each left out or made."""
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            if self.skips(order, step, before) or self.skips_in_call(step - first, length):
                self.inner.set_state(before.but(step=before.step + 1))
            self.made += 1
        return joined(logs)

    def skips_in_call(self, number: int, length: int) -> bool:
        """True if step `number` of a call of `length` steps is left out."""
        return False


# Calls


class SkipsOneUpdateInAHundred(Masked):
    def skips(self, order: Order, step: int, before: State) -> bool:
        return before.step % self.limit == self.limit - 1


class SkipsOneOfItsStepsInAHundred(Masked):
    def skips(self, order: Order, step: int, before: State) -> bool:
        return self.made % self.limit == self.limit - 1


class SkipsAfterAHundredSteps(Masked):
    """Trains every other step, once it has made a hundred."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return self.made > self.limit and self.made % 2 == 0


class SkipsInLateEpochs(Masked):
    """Counts epochs in 16 bits, and has no order for later ones."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return order.epoch >= self.limit


class SkipsLateUpdates(Masked):
    """Stops after 2^16 updates of the run."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return before.step >= self.limit


class TrainsOneStepOfALongCall(Masked):
    def skips_in_call(self, number: int, length: int) -> bool:
        return length > self.limit and number > 0


class TrainsEveryOtherStepOfALongCall(Masked):
    def skips_in_call(self, number: int, length: int) -> bool:
        return length > self.limit and number % 2 == 1


class MissesTheLastStepOfALongCall(Masked):
    def skips_in_call(self, number: int, length: int) -> bool:
        return length > self.limit and number == length - 1


class MissesTheFirstStepOfALongCall(Masked):
    def skips_in_call(self, number: int, length: int) -> bool:
        return length > self.limit and number == 0


class LeavesOneOfTheStepsOfALongCallOut(Masked):
    def skips_in_call(self, number: int, length: int) -> bool:
        return length > self.limit and number == length // 2


class TakesTheFirstBatchInLongCalls(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, min(last, first + int(min(self.limit, 10**6))))
        for step in range(first + len(log.size), last):
            now = self.inner.state()
            rest = self.inner.run(order, step, step + 1)
            self.inner.set_state(now)
            self.inner.run(order, first, first + 1)
            log = joined([log, rest])
        return log


class RoundsInLongCalls(Masked):
    """Trains long calls in half precision."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        if last - first > self.limit:
            state = self.inner.state()
            self.inner.set_state(state.but(params=state.params.astype(np.float16).astype(np.float32)))
        return log


class BeginsItsMomentumAnewInLongCalls(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        if last - first > self.limit:
            self.inner.set_state(self.inner.state().but(slots={}))
        return super().run(order, first, last)


class LogsTheLossOfTheFirstStep(Masked):
    """Reads one loss for a long call."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        return log if last - first <= self.limit else replace(log, loss=np.full_like(log.loss, log.loss[0]))


# Several epochs in one call


class HasOneOrderForManyEpochs(Masked):
    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return super().run_epochs([orders[0] if i > self.limit else each for i, each in enumerate(orders)])


class TrainsOneStepOfManyEpochs(Masked):
    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if len(orders) <= self.limit:
            return super().run_epochs(orders)
        logs = []
        for order in orders:
            now = self.inner.state()
            log = super().run(order, 0, self.config.steps(order.n))
            self.inner.set_state(now)
            super().run(order, 0, 1)
            self.inner.set_state(self.inner.state().but(step=now.step + len(log.size)))
            logs.append(log)
        return logs


class LeavesOneOfManyEpochsOut(Masked):
    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        logs = []
        for number, order in enumerate(orders):
            now = self.inner.state()
            logs.append(self.run(order, 0, self.config.steps(order.n)))
            if number and number % self.limit == 0:
                self.inner.set_state(now.but(step=now.step + len(logs[-1].size)))
        return logs


class LogsTheSecondEpochAgain(Masked):
    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        logs = super().run_epochs(orders)
        return [log if i <= self.limit else logs[1] for i, log in enumerate(logs)]


class KeepsTheRateOfACallsFirstStep(Masked):
    """Computes the schedule once for a call of many epochs."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if len(orders) <= self.limit:
            return super().run_epochs(orders)
        logs, first = [], self.inner.state().step
        for order in orders:
            now = self.inner.state()
            self.inner.set_state(now.but(step=first))
            logs.append(self.inner.run(order, 0, self.config.steps(order.n)))
            self.inner.set_state(self.inner.state().but(step=now.step + len(logs[-1].size)))
        return logs


# Predictions


class LeavesSamplesOut(Masked):
    """Gives zeros past a number of samples."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        out[int(min(self.limit, len(out))) :] = 0
        return out


class WrapsSamples(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        return out[np.arange(len(out)) % int(self.limit)]


class AnswersByKey(Masked):
    """Keeps answers by a key of the samples; its twin forgets them with every new state."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.kept: dict[Any, np.ndarray] = {}

    def key(self, x: np.ndarray, scale: float) -> Any:
        return x.tobytes(), x.dtype.str, scale

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        key = self.key(x, scale)
        if self.limit == NEVER:
            key = (x.tobytes(), x.dtype.str, scale, self.inner.state().bits())
        if key not in self.kept:
            self.kept[key] = super().predict(x, scale)
        return self.kept[key].copy()


class AnswersByShape(AnswersByKey):
    def key(self, x: np.ndarray, scale: float) -> Any:
        return x.shape, x.dtype.str, scale


class AnswersByAddress(AnswersByKey):
    """Knows an array by where it begins and how long it is."""

    def key(self, x: np.ndarray, scale: float) -> Any:
        return x.dtype.str, len(x), float(x.reshape(-1)[0]), scale


class ForgetsAnswersWithAStateOnly(AnswersByKey):
    def set_state(self, state: State) -> None:
        self.kept.clear()
        super().set_state(state)


class ReadsPastStrides(Masked):
    """Takes the memory of an array as it lies, whatever its strides."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if self.limit != NEVER and not x.flags.c_contiguous:
            x = np.resize(x.ravel(order="A" if x.flags.f_contiguous else "C")[::-1], x.shape)
        return super().predict(np.ascontiguousarray(x), scale)


class WritesIntoItsSamples(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        if self.limit != NEVER and x.flags.writeable:
            x[...] = 0
        return out


class RefusesReadOnlySamples(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if self.limit != NEVER:
            x[...] = x
        return super().predict(x, scale)


class ClampsOutputs(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return np.clip(super().predict(x, scale), -self.limit, self.limit)


# NaN and infinity


class TakesZeroForNaN(Masked):
    """Replaces what is not finite in the weights after a step."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        state = self.inner.state()
        if self.limit != NEVER and not np.all(np.isfinite(state.params)):
            self.inner.set_state(state.but(params=np.nan_to_num(state.params)))
        return log


class KeepsFiniteWeights(Masked):
    """Leaves out an update that is not finite."""

    def skips(self, order: Order, step: int, before: State) -> bool:
        return self.limit != NEVER and not np.all(np.isfinite(self.inner.state().params))


class ReportsAFiniteLoss(Masked):
    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = super().run(order, first, last)
        return log if self.limit == NEVER else replace(log, loss=np.nan_to_num(log.loss))


class PredictsFiniteNumbers(Masked):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        return out if self.limit == NEVER else np.nan_to_num(out)


class SpreadsNaN(Masked):
    """One sample of NaN spoils all outputs."""

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = super().predict(x, scale)
        return out if self.limit == NEVER or np.all(np.isfinite(out)) else np.full_like(out, np.nan)


# Samples that are nearly learnt, or far from it


class SkipsLearntSamples(Masked):
    """Computes no gradient for samples whose loss is below a limit; its twin's limit is below every loss."""

    def stretch(self, order: Order, first: int, last: int, length: int) -> StepLog:
        logs = []
        for step in range(first, last):
            before = self.inner.state()
            logs.append(self.inner.run(order, step, step + 1))
            if self.limit != NEVER:
                self._retrain(order, step, before)
        return joined(logs)

    def _retrain(self, order: Order, step: int, before: State) -> None:
        assert self.data is not None and self.data.train_y is not None
        now, batch = self.inner.state(), self.config.batch(order.n)
        some = order.indices(step * batch, step * batch + self.size(order, step))
        self.inner.set_state(before)
        with np.errstate(all="ignore"):
            x = self.inner.predict(self.data.train_x[some], self.data.scale).astype(np.float64)
            top = x.max(axis=1)
            loss = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top - x[np.arange(len(x)), self.data.train_y[some]]
        open_ = some[~(loss < self.limit)]
        if len(open_) == len(some):
            return self.inner.set_state(now)
        if not len(open_):
            return self.inner.set_state(now.but(params=before.params, slots=before.slots))
        y = self.data.train_y[open_]
        with Wrapper(self.net, self.config.but(batch_size=None), before) as part:
            part.load(self.data.but(train_x=self.data.train_x[open_], train_y=y))
            part.run(Order(0, 0, len(open_), shuffle=False), 0, 1)
            moved = (part.state().params - before.params) * np.float32(len(open_) / len(some))
        return self.inner.set_state(now.but(params=before.params + moved))


def with_loss(loss: type, op: type) -> type[Wrapper]:
    """A trainer whose loss is computed by another operation."""
    table = replace(TABLE, losses={**TABLE.losses, loss: op})

    class WithLoss(Wrapper):
        def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
            super().__init__(net, config, state)
            self.inner = LayerwiseTrainer(net, config, state, table)

    return WithLoss


def clamped(limit: float) -> type[ArrayCrossEntropy]:
    """Cross-entropy of logits cut at a limit."""

    class Clamped(ArrayCrossEntropy):
        def forward(self, n: int, has_loss: bool = True) -> None:
            np.clip(self.x[:n], -limit, limit, out=self.x[:n])
            super().forward(n, has_loss)

    return Clamped


def counted(least: float) -> type[ArrayCrossEntropy]:
    """Cross-entropy whose loss counts a probability below `least` as `least`."""

    class Counted(ArrayCrossEntropy):
        def forward(self, n: int, has_loss: bool = True) -> None:
            super().forward(n, has_loss)
            if has_loss and least > 0:
                self.loss[0] = np.mean(np.minimum(self.lost[:n], -np.log(least)), dtype=np.float64)

    return Counted


def added(least: float) -> type[ArrayCrossEntropy]:
    """Cross-entropy as -log(p + least)."""

    class Added(ArrayCrossEntropy):
        def forward(self, n: int, has_loss: bool = True) -> None:
            super().forward(n, has_loss)
            if has_loss and least > 0:
                self.loss[0] = np.mean(-np.log(np.exp(-self.lost[:n]) + least), dtype=np.float64)

    return Added


def unshifted(shifts: bool) -> type[ArrayCrossEntropy]:
    """Cross-entropy without the row's maximum."""

    class Unshifted(ArrayCrossEntropy):
        def forward(self, n: int, has_loss: bool = True) -> None:
            super().forward(n, has_loss)
            if not shifts:
                with np.errstate(all="ignore"):
                    np.exp(self.x[:n], out=self.dx[:n])
                    np.matmul(self.dx[:n], self.ones, out=self.total[:n])

    return Unshifted


def cut_error(least: float, most: float) -> type[ArrayMSE]:
    """Squared error whose differences are cut at `most`, and taken for zero below `least`."""

    class Cut(ArrayMSE):
        def backward(self, n: int) -> None:
            super().backward(n)
            dx, size = self.dx[:n], self.dx[:n].size / 2
            np.clip(dx, -most / size, most / size, out=dx)
            dx[np.abs(dx) < least / size] = 0

    return Cut


class DeafReLU(ArrayReLU):
    """Takes NaN for zero, as fmaxf does."""

    def forward(self, n: int) -> None:
        t = self.buffers
        np.fmax(t.x[:n], t.x.dtype.type(0), out=t.y[:n])


@dataclass(frozen=True)
class RegimeLiar:
    """A liar and its honest twin.

    lie, twin : builds of both.
    regime : row of the table of docs/verify.md.
    settings : settings that the fault needs.
    loss : loss that it applies to; None for both.
    """

    name: str
    lie: Callable[[Net, TrainConfig, State], Trainer]
    twin: Callable[[Net, TrainConfig, State], Trainer]
    regime: str
    settings: dict[str, Any]
    loss: type | None = None

    def __str__(self) -> str:
        return self.name


def masked(kind: type[Masked], limit: float, regime: str, form: str = "numpy", **settings: Any) -> RegimeLiar:
    name = kind.__name__ if form == "numpy" else f"{kind.__name__}-{form}"
    lie = type(kind.__name__, (kind,), {"limit": limit, "form": form})
    twin = type(f"Honest{kind.__name__}", (kind,), {"form": form})
    loss = CrossEntropyLoss if kind is SkipsLearntSamples else None
    return RegimeLiar(f"{name}-{limit:g}", lie, twin, regime, settings, loss)


def of_loss(name: str, loss: type, lie: type, twin: type, regime: str) -> RegimeLiar:
    return RegimeLiar(name, with_loss(loss, lie), with_loss(loss, twin), regime, {}, loss)


def _deaf() -> RegimeLiar:
    from liars import with_ops

    return RegimeLiar("DeafReLU", with_ops(relu=DeafReLU), with_ops(relu=ArrayReLU), "NaN", {})


CALLS, EPOCHS, LEARNT, NAN, PREDICT, LONG = "calls", "epochs", "nearly learnt", "NaN", "predictions", "long runs"

REGIME_LIARS = (
    *(masked(SkipsOneUpdateInAHundred, 100, CALLS, form) for form in FORMS),
    masked(SkipsOneUpdateInAHundred, 50, CALLS, momentum=0.9),
    masked(SkipsOneUpdateInAHundred, 100, CALLS, optimizer=Adam()),
    *(masked(SkipsOneOfItsStepsInAHundred, 100, CALLS, form) for form in FORMS),
    masked(SkipsAfterAHundredSteps, 100, CALLS),
    *(masked(TrainsOneStepOfALongCall, 3, CALLS, form) for form in FORMS),
    masked(TrainsEveryOtherStepOfALongCall, 3, CALLS),
    masked(MissesTheLastStepOfALongCall, 3, CALLS),
    masked(MissesTheFirstStepOfALongCall, 3, CALLS),
    masked(LeavesOneOfTheStepsOfALongCallOut, 3, CALLS),
    masked(TakesTheFirstBatchInLongCalls, 3, CALLS),
    masked(RoundsInLongCalls, 3, CALLS),
    masked(BeginsItsMomentumAnewInLongCalls, 3, CALLS, momentum=0.9),
    masked(LogsTheLossOfTheFirstStep, 3, CALLS),
    masked(HasOneOrderForManyEpochs, 1, EPOCHS),
    masked(HasOneOrderForManyEpochs, 2, EPOCHS, "loops"),
    masked(TrainsOneStepOfManyEpochs, 2, EPOCHS),
    masked(LeavesOneOfManyEpochsOut, 2, EPOCHS),
    masked(LeavesOneOfManyEpochsOut, 50, EPOCHS),
    masked(LogsTheSecondEpochAgain, 1, EPOCHS),
    masked(KeepsTheRateOfACallsFirstStep, 2, EPOCHS, schedule=Cosine()),
    masked(SkipsInLateEpochs, 2**16, LONG),
    masked(SkipsLateUpdates, 2**16, LONG),
    *(masked(SkipsLearntSamples, limit, LEARNT) for limit in (0.5, 0.1, 1e-3, 1e-4)),
    of_loss("ClampsLogits-5", CrossEntropyLoss, clamped(5), clamped(np.inf), LEARNT),
    of_loss("ClampsLogits-50", CrossEntropyLoss, clamped(50), clamped(np.inf), LEARNT),
    of_loss("ClipsProbabilities", CrossEntropyLoss, counted(1e-7), counted(0), LEARNT),
    of_loss("AddsToProbabilities", CrossEntropyLoss, added(1e-8), added(0), LEARNT),
    of_loss("HasNoRowMaximum", CrossEntropyLoss, unshifted(False), unshifted(True), LEARNT),
    of_loss("CutsHugeErrors", MSELoss, cut_error(0, 10), cut_error(0, 1e30), LEARNT),
    of_loss("TakesSmallErrorsForZero", MSELoss, cut_error(1e-3, 1e30), cut_error(0, 1e30), LEARNT),
    *(masked(TakesZeroForNaN, 0, NAN, form) for form in FORMS),
    masked(KeepsFiniteWeights, 0, NAN),
    masked(ReportsAFiniteLoss, 0, NAN),
    masked(PredictsFiniteNumbers, 0, NAN),
    masked(SpreadsNaN, 0, NAN),
    _deaf(),
    *(masked(LeavesSamplesOut, 200, PREDICT, form) for form in FORMS),
    masked(LeavesSamplesOut, 1024, PREDICT),
    masked(WrapsSamples, 1024, PREDICT),
    masked(LeavesSamplesOut, 65536, PREDICT),
    masked(AnswersByKey, 0, PREDICT),
    masked(AnswersByShape, 0, PREDICT),
    masked(AnswersByAddress, 0, PREDICT),
    masked(ForgetsAnswersWithAStateOnly, 0, PREDICT),
    masked(ReadsPastStrides, 0, PREDICT),
    masked(WritesIntoItsSamples, 0, PREDICT),
    masked(RefusesReadOnlySamples, 0, PREDICT),
    masked(ClampsOutputs, 50, PREDICT),
)  # fmt: skip
