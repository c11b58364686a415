"""Liars about RMSprop and OneCycle: each makes a step, or a rate, as people get them wrong."""

from __future__ import annotations

import numpy as np
from liars import UPDATE, Liar, Wrapper
from wrong_steps import SLOTS, ForgetsTheSecondSlot, IgnoresTheSchedule, OtherNumbers, SwapsItsSlots, few, with_update

from warpladder.config import TrainConfig
from warpladder.ops.update.array import ArrayUpdate
from warpladder.optimizers import RMSprop
from warpladder.optimizers.schedules import OneCycle


class PutsEpsUnderTheRoot(ArrayUpdate):
    """g / sqrt(v + eps)."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, decay, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads + decay * self.params
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + g / np.sqrt(square + eps)
        self.params -= rate * buffer


class TakesTheComplement(ArrayUpdate):
    """Takes alpha for the share of the new square."""

    def step(self, numbers: np.ndarray) -> None:
        numbers = numbers.copy()
        numbers[1:3] = numbers[2:0:-1]
        super().step(numbers)


class AddsGradientsUp(ArrayUpdate):
    """Adds gradients to the momentum, and divides afterwards."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, decay, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads + decay * self.params
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + g
        self.params -= rate * buffer / (np.sqrt(square) + eps)


class DividesByTheOldRoot(ArrayUpdate):
    """Adds the new square after the division."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, decay, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads + decay * self.params
        buffer[...] = momentum * buffer + g / (np.sqrt(square) + eps)
        square[...] = alpha * square + rest * g * g
        self.params -= rate * buffer


class StepsByTheQuotient(ArrayUpdate):
    """Computes the momentum and does not use it."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, decay, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads + decay * self.params
        square[...] = alpha * square + rest * g * g
        quotient = g / (np.sqrt(square) + eps)
        buffer[...] = momentum * buffer + quotient
        self.params -= rate * quotient


class StoresTheRate(ArrayUpdate):
    """Stores steps as its momentum, which a change of the rate makes wrong."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, decay, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads + decay * self.params
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + rate * g / (np.sqrt(square) + eps)
        self.params -= buffer


class SquaresBeforeItDecays(ArrayUpdate):
    """Leaves the weight decay out of the square."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, decay, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + (g + decay * self.params) / (np.sqrt(square) + eps)
        self.params -= rate * buffer


class CorrectsLikeAdam(OtherNumbers):
    """Divides the mean square by 1 - alpha^t."""

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        out = self.config.numbers(first, last, samples)
        out[:, 0] *= np.sqrt(1 - out[:, 1] ** np.arange(first + 1, last + 1))
        return out


class Cycles(OtherNumbers):
    """Computes the rates of OneCycle itself: half cosines from low to the rate and down to the end."""

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        return self.config.optimizer.numbers(self.rates(first, last, self.config.steps(samples)), first)

    def rates(self, first: int, last: int, steps: int) -> np.ndarray:
        cycle, rate = self.config.schedule, self.config.learning_rate
        assert isinstance(cycle, OneCycle)
        total = (self.config.epochs if cycle.epochs is None else cycle.epochs) * steps
        top, low = self.top(cycle.pct_start * total), rate / cycle.div_factor
        at = np.minimum(np.arange(first, last, dtype=np.float64), total - 1)
        up, down = at / top, (at - top) / (total - 1 - top)
        rising = low + (rate - low) * self.share(up)
        falling = rate + (low / cycle.final_div_factor - rate) * self.share(down)
        return np.where(at <= top, rising, falling)

    def top(self, length: float) -> float:
        return length - 1

    def share(self, part: np.ndarray) -> np.ndarray:
        return (1 - np.cos(np.pi * part)) / 2


class PeaksAStepLate(Cycles):
    """Counts the rising steps from 1."""

    def top(self, length: float) -> float:
        return length


class RisesAndFallsInLines(Cycles):
    """Takes a straight line for each half cosine."""

    def share(self, part: np.ndarray) -> np.ndarray:
        return part


class EndsWhereItBegan(Wrapper):
    """Falls to the rate of the first step."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(schedule=OneCycle(final_div_factor=1.0))


class CyclesInEachEpoch(Wrapper):
    """Takes an epoch for the run."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(schedule=OneCycle(epochs=1.0))


class BeginsAtTheTop(Wrapper):
    """Takes the optimizer's rate for that of the first step."""

    def settings(self, config: TrainConfig) -> TrainConfig:
        return config.but(schedule=OneCycle(div_factor=1.0))


RMS = {"optimizer": RMSprop(1e-3, momentum=0.9)}
DECAYING = {"optimizer": RMSprop(1e-3, momentum=0.9, weight_decay=1e-8)}
CYCLE = {"optimizer": RMSprop(1e-3), "schedule": OneCycle()}

WRONG_CYCLES = (
    *(
        Liar(with_update(update), SLOTS, few, RMS, update.__name__)
        for update in (
            PutsEpsUnderTheRoot, TakesTheComplement, AddsGradientsUp, DividesByTheOldRoot, StepsByTheQuotient,
            StoresTheRate,
        )
    ),
    Liar(with_update(SquaresBeforeItDecays), SLOTS, few, DECAYING, "SquaresBeforeItDecays"),
    Liar(CorrectsLikeAdam, UPDATE, few, RMS),
    Liar(ForgetsTheSecondSlot, SLOTS, few, RMS, "ForgetsTheMomentumOfRMSprop"),
    Liar(SwapsItsSlots, SLOTS, few, RMS, "SwapsTheSlotsOfRMSprop"),
    Liar(IgnoresTheSchedule, UPDATE, few, CYCLE, "IgnoresTheCycle"),
    *(
        Liar(build, UPDATE, few, CYCLE)
        for build in (PeaksAStepLate, RisesAndFallsInLines, EndsWhereItBegan, CyclesInEachEpoch, BeginsAtTheTop)
    ),
)  # fmt: skip


class CyclesHonestly(Cycles):
    """OneCycle's rates, computed here: a proof passes them."""
