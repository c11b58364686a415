"""Liars about optimizers, schedules and the count of updates: each takes an honest gradient and makes the wrong step of
it, or keeps a wrong state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from liars import UPDATE, Liar, Wrapper, joined

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.nets import Net
from warpladder.ops.tables.array import TABLE
from warpladder.ops.update.array import ArrayUpdate
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Constant, Cosine, StepDecay
from warpladder.trainers.base import State, StepLog
from warpladder.trainers.layerwise import LayerwiseTrainer

# What it was told to do


class IgnoresTheSchedule(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(schedule=Constant())


class IgnoresWarmup(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(schedule=replace(config.schedule, warmup=0.0))


class SwapsBetas(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        assert isinstance(config.optimizer, Adam)
        return config.but(betas=config.optimizer.betas[::-1])


class IgnoresEps(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(eps=1e-30)


class CouplesDecay(Wrapper):
    """Adds AdamW's weight decay to the gradient."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(optimizer=Adam(**asdict(config.optimizer)))


class DecouplesDecay(Wrapper):
    """Takes Adam's weight decay past the gradient."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(optimizer=AdamW(**asdict(config.optimizer)))


class IgnoresDecay(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(weight_decay=0.0)


# What it makes a step with


class OtherNumbers(Wrapper):
    """Makes its steps with numbers of its own."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        self.inner.config = Told(config, self.numbers)  # type: ignore[assignment]

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        raise NotImplementedError


class Told:
    """Settings with other numbers."""

    def __init__(self, config: TrainConfig, numbers: Callable[[int, int, int], np.ndarray]) -> None:
        self.config, self.numbers = config, numbers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.config, name)


class CorrectsNoBias(OtherNumbers):
    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        out = self.config.numbers(first, last, samples)
        out[:, 0], out[:, 5] = self.config.rates(first, last, samples), 1.0
        return out


class CorrectsOneMeanAlone(OtherNumbers):
    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        out = self.config.numbers(first, last, samples)
        out[:, 5] = 1.0
        return out


class CorrectsOneStepLate(OtherNumbers):
    """As for the update before; the first it corrects rightly."""

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        return self.config.optimizer.numbers(self.config.rates(first, last, samples), max(first - 1, 0))


class CorrectsAsAtTheEnd(OtherNumbers):
    """Takes the corrections for 1, which they are after thousands of updates, from the tenth on."""

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        return self.config.optimizer.numbers(self.config.rates(first, last, samples), first if first < 9 else 10**6)


class TakesTheRateOneStepLate(OtherNumbers):
    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        late = self.config.rates(max(first - 1, 0), max(last - 1, 1), samples)
        return self.config.optimizer.numbers(late, first)


class ChangesTheRateEachEpoch(OtherNumbers):
    """Works the rate out once an epoch."""

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        steps = self.config.steps(samples)
        return self.config.optimizer.numbers(
            self.config.rates(first // steps * steps, first // steps * steps + 1, samples), first
        )


class KeepsItsFirstEpochsLength(OtherNumbers):
    """Works out how many steps an epoch has for the first data set alone."""

    samples: int | None = None

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        self.samples = self.samples or samples
        return self.config.numbers(first, last, self.samples)


class CountsByTheOrder(OtherNumbers):
    """Takes the number of an update from the order's epoch and the step, not from the state."""

    number = 0

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            self.number = order.epoch * self.config.steps(order.n) + step
            logs.append(super().run(order, step, step + 1))
        return joined(logs)

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        return self.config.numbers(self.number, self.number + 1, samples)


# The step


def with_update(update: type[ArrayUpdate]) -> type[Wrapper]:
    """A trainer whose update is replaced."""
    table = replace(TABLE, update=update)

    class WithUpdate(Wrapper):
        def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
            super().__init__(net, config, state)
            self.inner = LayerwiseTrainer(net, config, state, table)

    return WithUpdate


class EpsInTheRoot(ArrayUpdate):
    """m / sqrt(v + eps)."""

    def step(self, numbers: np.ndarray) -> None:
        rate, beta1, rest1, beta2, rest2, root, eps, _ = numbers
        (m, v), g = self.slots, self.grads
        m[...] = beta1 * m + rest1 * g
        v[...] = beta2 * v + rest2 * g * g
        self.params -= rate * m / np.sqrt(v * root**2 + eps)


class RootsUncorrected(ArrayUpdate):
    """Adds eps before the root is corrected: (sqrt(v) + eps) / sqrt(1 - beta2^t), as Adam's first paper has in its
    remark on speed.
    """

    def step(self, numbers: np.ndarray) -> None:
        numbers = numbers.copy()
        numbers[6] *= numbers[5]
        super().step(numbers)


class SquaresWhatWasNotClipped(ArrayUpdate):
    """Adds the unclipped gradient's square to exp_avg_sq."""

    def step(self, numbers: np.ndarray) -> None:
        rate, beta1, rest1, beta2, rest2, root, eps, _ = numbers
        (m, v), g = self.slots, self.grads
        assert self.config.clip_value is not None
        m[...] = beta1 * m + rest1 * np.clip(g, -self.config.clip_value, self.config.clip_value)
        v[...] = beta2 * v + rest2 * g * g
        self.params -= rate * m / (np.sqrt(v) * root + eps)


class SquaresWithoutDecay(ArrayUpdate):
    """Leaves Adam's weight decay out of exp_avg_sq."""

    def step(self, numbers: np.ndarray) -> None:
        rate, beta1, rest1, beta2, rest2, root, eps, decay = numbers
        (m, v), g = self.slots, self.grads
        m[...] = beta1 * m + rest1 * (g + decay * self.params)
        v[...] = beta2 * v + rest2 * g * g
        self.params -= rate * m / (np.sqrt(v) * root + eps)


class WrongNorm(ArrayUpdate):
    """Scales the gradients by a norm of its own."""

    def norm(self) -> float:
        raise NotImplementedError

    def _clip_norm(self, limit: float) -> None:
        self.grads *= self.grads.dtype.type(min(1.0, limit / (self.norm() + 1e-6)))


class TakesTheSumOfSquares(WrongNorm):
    def norm(self) -> float:
        return float(np.sum(self.grads.astype(np.float64) ** 2))


class TakesTheSumOfSizes(WrongNorm):
    def norm(self) -> float:
        return float(np.sum(np.abs(self.grads)))


class LeavesOutTheLastBias(WrongNorm):
    def norm(self) -> float:
        return float(np.linalg.norm(self.grads[:-1]))


class ScalesSmallGradientsUp(ArrayUpdate):
    def _clip_norm(self, limit: float) -> None:
        self.grads *= self.grads.dtype.type(limit / (np.linalg.norm(self.grads) + 1e-6))


class ClipsWhatDecays(ArrayUpdate):
    """Clips the gradient with its weight decay in it."""

    def step(self, numbers: np.ndarray) -> None:
        self.grads += numbers[3] * self.params
        numbers = numbers.copy()
        numbers[3] = 0
        super().step(numbers)


class LooksNotAhead(ArrayUpdate):
    """Takes Nesterov's step along the momentum from before."""

    def step(self, numbers: np.ndarray) -> None:
        rate, momentum, _, decay = numbers[:4]
        (v,), g = self.slots, self.grads
        g += decay * self.params
        self.params -= rate * (g + momentum * v)
        v[...] = momentum * v + g


class UsesOldSquares(ArrayUpdate):
    """Divides by the root from before this update."""

    def step(self, numbers: np.ndarray) -> None:
        rate, beta1, rest1, beta2, rest2, root, eps, _ = numbers
        (m, v), g = self.slots, self.grads
        m[...] = beta1 * m + rest1 * g
        self.params -= rate * m / (np.sqrt(v) * root + eps)
        v[...] = beta2 * v + rest2 * g * g


# What it keeps


class ForgetsTheSecondSlot(Wrapper):
    """set_state leaves it as it stands."""

    def set_state(self, state: State) -> None:
        second = self.config.optimizer.slots[1]
        super().set_state(state.but(slots={**state.slots, second: self.inner.state().slots[second]}))


class ForgetsTheStep(Wrapper):
    """set_state leaves the count as it stands."""

    def set_state(self, state: State) -> None:
        super().set_state(state.but(step=self.inner.state().step))


class BeginsAtStepZero(Wrapper):
    """Whatever state it is built with."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state.but(step=0))


class BeginsWithoutSlots(Wrapper):
    """Whatever state it is built with."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state.but(slots={}))


class HidesTheStep(Wrapper):
    """Counts, and gives out none; what it is given back it counts on from its own."""

    def state(self) -> State:
        return super().state().but(step=0)


class CountsRunsAsSteps(Wrapper):
    """However many steps a call takes, it counts one."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        before = self.inner.state().step
        log = super().run(order, first, last)
        self.inner.set_state(self.inner.state().but(step=before + 1))
        return log


class CountsFloats(Wrapper):
    def state(self) -> State:
        state = super().state()
        return state.but(step=float(state.step))


class SwapsItsSlots(Wrapper):
    """Gives each out under the other's name, and takes them so."""

    def _swapped(self, state: State) -> State:
        one, two = self.config.optimizer.slots
        return state.but(slots={one: state.slot(two), two: state.slot(one)})

    def state(self) -> State:
        return self._swapped(super().state())


class SharesASlot(Wrapper):
    """state() gives a slot's own array."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state)
        assert isinstance(self.inner, LayerwiseTrainer)
        self.live = self.inner.slots

    def state(self) -> State:
        state = super().state()
        return state.but(slots={**state.slots, "exp_avg_sq": self.live["exp_avg_sq"]})


def few(net: Net, config: TrainConfig) -> bool:
    """Of a step's faults a net with matrices sees as much as another, and one with kernels."""
    return net.name in ("mlp", "coder")


ADAM = {"optimizer": Adam()}
DECAYING = {"optimizer": Adam(weight_decay=1e-8)}
ADAMW = {"optimizer": AdamW()}
NESTEROV = {"optimizer": SGD(momentum=0.9, nesterov=True, weight_decay=1e-4), "clip_value": 5.0}
COSINE = {"optimizer": Adam(), "schedule": Cosine(warmup=1)}
CLIPPED = {"optimizer": Adam(), "clip_value": 5.0}
NORM = {"optimizer": SGD(momentum=0.9), "clip_norm": 0.5}
STEPS = {"schedule": StepDecay(every=1, gamma=0.01)}
STEP = (*UPDATE, "step")
SLOTS = (*UPDATE, "slots")

WRONG_STEPS = (
    Liar(IgnoresTheSchedule, UPDATE, few, COSINE),
    Liar(IgnoresTheSchedule, UPDATE, few, STEPS, "IgnoresStepDecay"),
    Liar(IgnoresWarmup, UPDATE, few, {"schedule": Constant(warmup=1)}),
    Liar(SwapsBetas, UPDATE, few, ADAM),
    Liar(IgnoresEps, UPDATE, few, ADAM),
    Liar(CouplesDecay, UPDATE, few, ADAMW),
    Liar(CouplesDecay, UPDATE, few, {"optimizer": AdamW(weight_decay=1e-8)}, "CouplesASmallDecay"),
    Liar(DecouplesDecay, UPDATE, few, DECAYING),
    Liar(IgnoresDecay, UPDATE, few, DECAYING),
    Liar(IgnoresDecay, UPDATE, few, {"optimizer": AdamW(weight_decay=1e-8)}, "IgnoresAdamWsDecay"),
    Liar(CorrectsNoBias, UPDATE, few, ADAM),
    Liar(CorrectsOneMeanAlone, UPDATE, few, ADAM),
    Liar(CorrectsOneStepLate, UPDATE, few, ADAM),
    Liar(CorrectsAsAtTheEnd, UPDATE, few, ADAM),
    Liar(TakesTheRateOneStepLate, UPDATE, few, COSINE),
    Liar(ChangesTheRateEachEpoch, UPDATE, few, COSINE),
    Liar(KeepsItsFirstEpochsLength, UPDATE, few, COSINE),
    Liar(CountsByTheOrder, UPDATE, few, ADAM),
    Liar(with_update(EpsInTheRoot), UPDATE, few, ADAM, "EpsInTheRoot"),
    Liar(with_update(RootsUncorrected), UPDATE, few, ADAM, "RootsUncorrected"),
    Liar(with_update(SquaresWhatWasNotClipped), SLOTS, few, CLIPPED, "SquaresWhatWasNotClipped"),
    Liar(with_update(SquaresWithoutDecay), SLOTS, few, DECAYING, "SquaresWithoutDecay"),
    Liar(with_update(ClipsWhatDecays), UPDATE, few, NESTEROV, "ClipsWhatDecays"),
    Liar(with_update(TakesTheSumOfSquares), UPDATE, few, NORM, "TakesTheSumOfSquares"),
    Liar(with_update(TakesTheSumOfSizes), UPDATE, few, NORM, "TakesTheSumOfSizes"),
    Liar(with_update(LeavesOutTheLastBias), UPDATE, few, NORM, "LeavesOutTheLastBias"),
    Liar(with_update(ScalesSmallGradientsUp), UPDATE, few, {"clip_norm": 1e6}, "ScalesSmallGradientsUp"),
    Liar(with_update(LooksNotAhead), UPDATE, few, {"optimizer": SGD(momentum=0.9, nesterov=True)}, "LooksNotAhead"),
    Liar(with_update(UsesOldSquares), UPDATE, few, ADAM, "UsesOldSquares"),
    Liar(ForgetsTheSecondSlot, UPDATE, few, ADAM),
    Liar(ForgetsTheStep, STEP, few),
    Liar(ForgetsTheStep, UPDATE, few, COSINE, "ForgetsTheScheduledStep"),
    Liar(BeginsAtStepZero, STEP, few),
    Liar(BeginsWithoutSlots, UPDATE, few, ADAM),
    Liar(HidesTheStep, ("step",), few, COSINE),
    Liar(CountsRunsAsSteps, ("step",), few),
    Liar(CountsFloats, ("state",), few),
    Liar(SwapsItsSlots, ("slots",), few, ADAM),
    Liar(SharesASlot, ("copy", "repeat"), few, ADAM),
)
