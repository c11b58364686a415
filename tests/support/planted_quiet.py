"""Planted trainers whose faults are small, or rare: a thousandth of a slot, one size of a last batch, one count.

Each fault has `lies`. Its honest twin is the same code, with the fault off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from liars import Wrapper
from planted_details import FadesAtAnEpochsEnd, of_layer, planted
from planted_operations import Planted
from planted_outsider import StepByStep

from warpladder.data.order import Order
from warpladder.nets import GELU, AvgPool2d, BatchNorm1d, BatchNorm2d, Conv2d, LeakyReLU, Linear, Tanh
from warpladder.optimizers import SGD, Adam
from warpladder.trainers.base import State, StepLog


class FadesALittle(FadesAtAnEpochsEnd):
    """Takes a thousandth off the slots after the last step of an epoch."""

    share = 1e-3


class FadesAWhit(FadesAtAnEpochsEnd):
    """Takes a ten-thousandth off the slots after the last step of an epoch."""

    share = 1e-4


class LosesOneSizeOfLastBatches(StepByStep):
    """Leaves out a last batch of exactly `samples` samples."""

    lies, samples = True, 1

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if self.lies and log.size[0] == self.samples < self.config.batch(order.n):
            self.skip(before)


class LosesLastBatchesThatLackOne(LosesOneSizeOfLastBatches):
    """Leaves out a last batch that lacks one sample."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if self.lies and log.size[0] == self.config.batch(order.n) - 1 > 1:
            self.skip(before)


class LosesHalfLastBatches(LosesOneSizeOfLastBatches):
    """Leaves out a last batch that is half full."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if self.lies and 2 * log.size[0] == self.config.batch(order.n):
            self.skip(before)


class CountsUpdatesInFloats(Wrapper):
    """Holds the count of updates in float32, which has no odd numbers beyond 2^24."""

    lies = True

    def set_state(self, state: State) -> None:
        self.inner.set_state(state.but(step=int(np.float32(state.step))) if self.lies else state)

    def after(self, order: Order, step: int, before: State, state: State) -> State:
        return state.but(step=int(np.float32(before.step) + np.float32(1))) if self.lies else state


class AddsBiasesInHalf:
    """Rounds the gradients of biases to half precision's digits."""

    lies = True

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        if self.lies and self.buffers.db is not None:
            mantissa, exponent = np.frexp(self.buffers.db)
            self.buffers.db[...] = np.ldexp(np.round(mantissa * 2**11) / 2**11, exponent)


class AddsOneBiasInHalf:
    """The same of the last bias alone."""

    lies = True

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        if self.lies and self.buffers.db is not None:
            mantissa, exponent = np.frexp(self.buffers.db[-1])
            self.buffers.db[-1] = np.ldexp(np.round(mantissa * 2**11) / 2**11, exponent)


class HasTanhOfTheHardware:
    """Has the 11 bits of a fast instruction, forwards."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        if self.lies:
            mantissa, exponent = np.frexp(self.buffers.y[:n])
            self.buffers.y[:n] = np.ldexp(np.round(mantissa * 2**11) / 2**11, exponent)


class HasTheDerivativeOfTanh:
    """Has GELU's outputs by erf and its derivatives by tanh."""

    lies = True

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        if self.lies and t.dx is not None:
            x = t.x[:n].astype(np.float64)
            inner = 0.7978845608028654 * (x + 0.044715 * x**3)
            tanh = np.tanh(inner)
            slope = (1 + tanh) / 2 + x / 2 * (1 - tanh**2) * 0.7978845608028654 * (1 + 3 * 0.044715 * x**2)
            t.dx[:n] = t.dy[:n] * slope


class TakesTheLargerOfVarianceAndEps:
    """Takes max(var, eps) for var + eps in the forward pass."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        if self.lies:
            eps = self.layer.eps
            var = self.factor**-2.0 - eps
            right = self.factor
            self.factor = 1 / np.sqrt(np.maximum(var, eps))
            self.z[:n] *= self._wide(self.factor / right)
            self._map(self.z[:n], self.buffers.y[:n])


class PredictsByTheLargerOfVarianceAndEps:
    """Takes max(var, eps) for var + eps in predictions."""

    lies = True

    def predict(self: Any, n: int) -> None:
        t, eps = self.buffers, self.layer.eps
        held = t.var.copy()
        if self.lies:
            t.var[...] = np.maximum(held.astype(np.float64), eps) - eps
        super().predict(n)  # type: ignore[misc]
        t.var[...] = held


class RoundsItsSlope:
    """Holds the slope below zero in half precision."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        if self.lies:
            y = self.buffers.y[:n]
            slope = self.layer.negative_slope
            y[y < 0] *= np.float32(float(np.float16(slope)) / slope)


class RoundsTheShareOfPixels:
    """Holds one over the number of a window's pixels in half precision."""

    lies = True

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        if self.lies:
            share = 1 / self.layer.kernel_size**2
            self.buffers.y[:n] *= np.float32(float(np.float16(share)) / share)


class LooksAheadFromTheSecondStep(StepByStep):
    """Makes the plain step of momentum in the first step of an epoch, and Nesterov's in the others."""

    lies = True

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if self.lies and step == 0:
            own, slot = self.inner.state(), next(iter(self.inner.state().slots.values()))
            rate = float(self.config.rates(before.step, before.step + 1, order.n)[0])
            self.inner.set_state(own.but(params=(before.params - np.float32(rate) * slot).astype(slot.dtype)))


def of_size(size: int) -> type:
    return type(f"LosesLastBatchesOf{size}", (LosesOneSizeOfLastBatches,), {"samples": size})


QUIET: tuple[Planted, ...] = (
    *(planted(fault, lambda each: each, optimizer=SGD(0.01, momentum=0.9)) for fault in (FadesALittle, FadesAWhit)),
    planted(FadesALittle, lambda each: each, optimizer=Adam()),
    *(planted(of_size(size), lambda each: each) for size in range(1, 8)),
    *(planted(fault, lambda each: each) for fault in (LosesLastBatchesThatLackOne, LosesHalfLastBatches)),
    planted(CountsUpdatesInFloats, lambda each: each),
    planted(CountsUpdatesInFloats, lambda each: each, optimizer=Adam()),
    planted(LooksAheadFromTheSecondStep, lambda each: each, optimizer=SGD(0.01, momentum=0.9, nesterov=True)),
    *(each for kind in (Conv2d, Linear) for each in of_layer(kind, AddsBiasesInHalf, AddsOneBiasInHalf)),
    *of_layer(Tanh, HasTanhOfTheHardware), *of_layer(GELU, HasTheDerivativeOfTanh),
    *of_layer(LeakyReLU, RoundsItsSlope),
    *of_layer(AvgPool2d, RoundsTheShareOfPixels),
    *(each for kind in (BatchNorm1d, BatchNorm2d) for each in of_layer(
        kind, TakesTheLargerOfVarianceAndEps, PredictsByTheLargerOfVarianceAndEps
    )),
)  # fmt: skip
