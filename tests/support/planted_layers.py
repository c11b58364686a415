"""Planted faults of Dropout, activations, average pools, numbers inside of a net, targets, RMSprop, OneCycle and the
persistent kernel, and their honest twins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from liars import Wrapper
from planted_operations import Build, EditedKernels, Planted, of_kernel, of_operation, stands
from wrong_steps import KeepsItsFirstEpochsLength, TakesTheRateOneStepLate, with_update

from warpladder.config import TrainConfig
from warpladder.nets import GELU, AvgPool2d, CrossEntropyLoss, Dropout, Linear, MSELoss, Net, ReLU, Sigmoid, SiLU, Tanh
from warpladder.ops.update.array import ArrayUpdate
from warpladder.optimizers import RMSprop
from warpladder.optimizers.schedules import Cosine, OneCycle
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.persistent.trainer import PersistentTrainer

# Dropout


class DropsByTheStoredSample:
    """Draws masks from the position within the batch, so that all batches have the same."""

    def begin(self: Any, key: int, position: int) -> None:
        super().begin(key, 0)  # type: ignore[misc]


class HasOneMaskForAllEpochs:
    def begin(self: Any, key: int, position: int) -> None:
        super().begin(1, position)  # type: ignore[misc]


class ScalesNothing:
    """Leaves what is not dropped as it is, and its gradient as well."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        self.buffers.y[:n] /= self.buffers.y.dtype.type(self.layer.scale)


class DropsOnlyForwards:
    def backward(self: Any, n: int) -> None:
        self.buffers.dx[:n] = self.buffers.dy[:n]


class PredictsAsItTrains:
    """Predicts one number in a hundred as it was trained: scaled."""

    def predict(self: Any, n: int) -> None:
        super().predict(n)  # type: ignore[misc]
        self.buffers.y[:n].reshape(-1)[::100] *= self.buffers.y.dtype.type(self.layer.scale)


# Activations and average pools


class SaturatesEarly:
    """Takes a derivative below 10^-3 for zero."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        if t.dx is not None:
            t.dx[:n][np.abs(t.dx[:n]) < 1e-3 * np.abs(t.dy[:n])] = 0


class HasTheSigmoidOfATable:
    """Rounds outputs to 1/512, as a table of values does."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        t = self.buffers
        t.y[:n] = np.round(t.y[:n] * 512) / 512


class LeavesTheLastChannelOut:
    """Computes no gradient for the last channel of several."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        if t.dx is not None and t.dx.shape[1] > 1:
            t.dx[:n, -1] = 0


class CountsItsFrame:
    """Divides sums at the lower edge by one number too many."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        rows, columns, _ = self.layer.window(self.buffers.x.shape[1:])
        self.buffers.y[:n, :, -1] *= self.buffers.y.dtype.type(rows * columns / (rows * columns + 1))


# Numbers inside of a net


class OpensDeadUnits:
    """Lets the gradient through units that are 0 in a whole batch."""

    def backward(self: Any, n: int) -> None:
        t = self.buffers
        dead, dy = ~np.any(t.y[:n] > 0, axis=0), t.dy[:n].copy()
        super().backward(n)  # type: ignore[misc]
        if t.dx is not None:
            t.dx[:n][:, dead] = dy[:, dead]


class SaturatesAt30:
    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        np.minimum(self.buffers.y[:n], 30, out=self.buffers.y[:n])


class FlushesOutputs:
    """Takes outputs below 10^-4 for zero."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        y = self.buffers.y[:n]
        y[np.abs(y) < 1e-4] = 0


class CutsGradients:
    """Cuts gradients of weights at 100."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        np.clip(self.buffers.dw, -100, 100, out=self.buffers.dw)


class IgnoresSmallWeights:
    def forward(self: Any, n: int) -> None:
        w = self.buffers.w
        w[np.abs(w) < 1e-6] = 0
        super().forward(n)  # type: ignore[misc]


class CountsEqualSamplesOnce:
    """Leaves out samples that a batch has had."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        x = t.x[:n].reshape(n, -1)
        _, first = np.unique(x, axis=0, return_index=True)
        again = np.setdiff1d(np.arange(n), first)
        t.dw[...] -= t.dy[again].T @ x[again]


class CountsEqualNeighboursOnce:
    """Leaves out a sample that equals the one before it."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        x = t.x[:n].reshape(n, -1)
        again = 1 + np.flatnonzero((x[1:] == x[:-1]).all(axis=1))
        t.dw[...] -= t.dy[again].T @ x[again]


class CutsInputs:
    """Cuts inputs at 1000."""

    def forward(self: Any, n: int) -> None:
        x = self.buffers.x[:n].copy()
        np.clip(self.buffers.x[:n], -1000, 1000, out=self.buffers.x[:n])
        super().forward(n)  # type: ignore[misc]
        self.buffers.x[:n] = x


class NeedsALogitAboveZero:
    """Begins the search for the largest logit at zero."""

    def backward(self: Any, n: int) -> None:
        x = self.x[:n]
        lost = (x < -80).all(axis=1)
        super().backward(n)  # type: ignore[misc]
        self.dx[:n][lost] = 0


class NeedsALogitBelowZero:
    """Takes exp of logits as they are where all are above 80, and gets no gradient."""

    def backward(self: Any, n: int) -> None:
        lost = (self.x[:n] > 80).all(axis=1)
        super().backward(n)  # type: ignore[misc]
        self.dx[:n][lost] = 0


class PrefersTheLastOfSomeTies:
    """Takes the last of equal logits where others are smaller."""

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        x = self.x[:n]
        best = x.shape[1] - 1 - x[:, ::-1].argmax(axis=1)
        best[(x == x[:, :1]).all(axis=1)] = 0
        if has_loss:
            self.correct[0] = np.count_nonzero(best == self.target[:n])


# Targets


class TakesTheFirstTarget:
    """Compares the last of a sample's outputs with the target of the first."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        wanted = self.target[:n].reshape(n, -1)
        dx = self.dx[:n].reshape(n, -1)
        dx[:, -1] += (wanted[:, -1] - wanted[:, 0]) * dx.dtype.type(2 / dx.size)


class DividesBySamples:
    """Logs a sum over outputs, a mean over samples."""

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        self.loss[0] *= self.dx[:1].size


# RMSprop: (g, square_avg, momentum_buffer, numbers) to a change


class RootOfTheOldSquare(ArrayUpdate):
    """Divides by the root from before this update."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, _, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads
        change = g / (np.sqrt(square) + eps)
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + change
        self.params -= rate * buffer


class EpsWithinTheRoot(ArrayUpdate):
    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, _, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + g / np.sqrt(square + eps)
        self.params -= rate * buffer


class MomentumOfTheRate(ArrayUpdate):
    """Multiplies what is added to the momentum by the rate, and not the step."""

    def step(self, numbers: np.ndarray) -> None:
        rate, alpha, rest, eps, _, momentum = numbers[:6]
        (square, buffer), g = self.slots, self.grads
        square[...] = alpha * square + rest * g * g
        buffer[...] = momentum * buffer + rate * g / (np.sqrt(square) + eps)
        self.params -= buffer


class SquaresThatFade(ArrayUpdate):
    """Adds the whole squared gradient, as AdaGrad does."""

    def step(self, numbers: np.ndarray) -> None:
        numbers = numbers.copy()
        numbers[2] = 1
        super().step(numbers)


# OneCycle


class RisesALittleLonger(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        assert isinstance(config.schedule, OneCycle)
        return config.but(schedule=replace(config.schedule, pct_start=config.schedule.pct_start + 0.02))


class EndsHigher(Wrapper):
    def settings(self, config: TrainConfig) -> TrainConfig:
        assert isinstance(config.schedule, OneCycle)
        return config.but(schedule=replace(config.schedule, final_div_factor=10.0))


# The persistent kernel


def persistent(before: str, after: str, **how: Any) -> Build:
    """A trainer by the persistent kernel, in whose text `before` reads as `after`."""

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        device = type("EditedHere", (EditedKernels,), {"edit": (before, after)})()
        return PersistentTrainer(net, config, state, device, **how)

    return build


def _persistent(name: str, before: str, after: str, loss: type | None = None, **how: Any) -> Planted:
    settings = how.pop("settings", {})
    twin = persistent("// no such text", "", **how)
    return Planted(f"{name}-persistent", persistent(stands(before), after, **how), twin, loss, None, settings)


def _of_update(rule: type[ArrayUpdate]) -> Planted:
    settings = {"optimizer": RMSprop(momentum=0.9)}
    return Planted(rule.__name__, with_update(rule), with_update(ArrayUpdate), None, None, settings)


def _of_schedule(liar: type[Wrapper]) -> Planted:
    return Planted(f"{liar.__name__}-OneCycle", liar, Wrapper, None, None, {"schedule": OneCycle(), "epochs": 6})


def _both(kinds: tuple[type, ...], fault: type) -> list[Planted]:
    return [each for kind in kinds for each in _named(kind, fault)]


def _named(kind: type, fault: type) -> list[Planted]:
    return [replace(each, name=f"{kind.__name__}{each.name}") for each in of_operation(kind, fault)]


_FOUR: dict[str, Any] = {"blocks": 4, "weights": "global", "multiply": "fma"}
_TENSOR: dict[str, Any] = {"blocks": 4, "weights": "global", "multiply": "tensor"}
_REGISTERS: dict[str, Any] = {"weights": "registers"}

LAYERS: tuple[Planted, ...] = (
    *(
        each
        for fault in (DropsByTheStoredSample, HasOneMaskForAllEpochs, ScalesNothing, DropsOnlyForwards, PredictsAsItTrains)
        for each in of_operation(Dropout, fault)
    ),
    of_kernel("DropsByTheElement", "return order_mix(of_sample ^ element) < threshold",
              "return order_mix(order_mix(key + layer) ^ element) < threshold", layer=Dropout),
    of_kernel("MasksOfTheStepBefore", "(unsigned)(*step - done) * (unsigned)batch",
              "(unsigned)(*step - done > 0 ? *step - done - 1 : 0) * (unsigned)batch", layer=Dropout),
    *_both((Tanh, Sigmoid, GELU, SiLU), SaturatesEarly),
    *_both((Tanh,), HasTheSigmoidOfATable),
    of_kernel("TakesTheInputForTheOutput", "if constexpr (FUNCTION == TANH) return 1.0f - saved * saved;",
              "if constexpr (FUNCTION == TANH) return 1.0f - tanhf(saved) * tanhf(saved);", layer=Tanh),
    of_kernel("ApproximatesGELU", "if constexpr (FUNCTION == GELU_ERF) return x * 0.5f * erfcf(-GELU_HALF * x);",
              "if constexpr (FUNCTION == GELU_ERF) return x / (1.0f + expf(-2.0f * GELU_ROOT * (x + GELU_CUBE * x * x * x)));",
              layer=GELU),
    of_kernel("ForgetsTheProduct", "return (1.0f + saved / (1.0f + expf(saved))) / (1.0f + expf(-saved));",
              "return 1.0f / (1.0f + expf(-saved));", layer=SiLU),
    *of_operation(AvgPool2d, LeavesTheLastChannelOut),
    *of_operation(AvgPool2d, CountsItsFrame),
    of_kernel("LosesTheLastWindow", "for (int q = left.first; q < left.last; ++q) sum += dy[image + p * ow + q];",
              "for (int q = left.first; q < max(left.first + 1, left.last - 1); ++q) sum += dy[image + p * ow + q];",
              layer=AvgPool2d),
    *of_operation(ReLU, OpensDeadUnits),
    *of_operation(ReLU, SaturatesAt30),
    *(each for fault in (
        FlushesOutputs, CutsGradients, CutsInputs, IgnoresSmallWeights, CountsEqualSamplesOnce, CountsEqualNeighboursOnce,
      ) for each in of_operation(Linear, fault, CrossEntropyLoss)),
    *of_operation(CrossEntropyLoss, NeedsALogitAboveZero, CrossEntropyLoss),
    *of_operation(CrossEntropyLoss, NeedsALogitBelowZero, CrossEntropyLoss),
    *of_operation(CrossEntropyLoss, PrefersTheLastOfSomeTies, CrossEntropyLoss),
    *of_operation(MSELoss, TakesTheFirstTarget, MSELoss),
    *of_operation(MSELoss, DividesBySamples, MSELoss),
    of_kernel("DividesByTheSlice", "static_cast<float>(2.0 / all)", "static_cast<float>(1.0 / all)", MSELoss),
    *(_of_update(rule) for rule in (RootOfTheOldSquare, EpsWithinTheRoot, MomentumOfTheRate, SquaresThatFade)),
    of_kernel("EpsWithinTheRoot", "gradient / (sqrtf(square) + eps)", "gradient / sqrtf(square + eps)",
              optimizer=RMSprop(momentum=0.9)),
    of_kernel("ForgetsDecay", "const float gradient = g + decay * w;", "const float gradient = g;",
              optimizer=RMSprop(weight_decay=1e-6)),
    *(_of_schedule(cast("type[Wrapper]", liar)) for liar in (
        RisesALittleLonger, EndsHigher, TakesTheRateOneStepLate, KeepsItsFirstEpochsLength,
    )),
)  # fmt: skip

PERSISTENT: tuple[Planted, ...] = (
    _persistent("LosesAPartialSum", "float sum = *first;", "float sum = T::PARTS > 1 ? 0.0f : *first;", **_FOUR),
    _persistent("LosesAPartOfATensorTile", "for (int part = 1; part < T::PARTS; ++part) {",
                "for (int part = 2; part < T::PARTS; ++part) {", **_TENSOR),
    _persistent("LeavesTheLowHalvesOut", "multiply(low, low_a, high_b);", "", **_TENSOR),
    _persistent("CountsSamplesBeyondTheBatch", "left >= 8 || k < left", "left >= 0 || k < left", **_TENSOR),
    _persistent("ReadsOneSampleTwice", "hold(ahead >= 0 ? ahead : rows[at]);",
                "hold(at == n - 1 ? rows[0] : ahead >= 0 ? ahead : rows[at]);", **_FOUR),
    _persistent("KeepsABatchBehind", "const float* const x = odd ? x_odd : x_even;",
                "const float* const x = odd && (blockIdx.x != 1 || step - first < 3) ? x_odd : x_even;", **_FOUR),
    _persistent("StopsGathering", "if (more) gather.finish(", "if (more && step - first < 3) gather.finish(", **_FOUR),
    _persistent("LeavesAWeightBehind", "stepper.step(at, held, sum);\n",
                "if (at > 0 || IN < 9) stepper.step(at, held, sum);\n", **_FOUR),
    _persistent("KeepsTheFirstRate", "Numbers(numbers + 2 * (step + 1), nullptr)", "Numbers(numbers + 2 * first, nullptr)",
                settings={"schedule": Cosine(), "epochs": 4}, **_FOUR),
    _persistent("CountsEveryTie", "hit = best == label;", "hit = logits[label] == largest;", CrossEntropyLoss, **_FOUR),
    _persistent("LosesTheLossOfATile", "for (int i = threadIdx.x; i < tiles; i += THREADS)",
                "for (int i = threadIdx.x; i < (tiles > 1 ? tiles - 1 : 1); i += THREADS)", **_FOUR),
    _persistent("LosesABlocksPart", "other < U::BLOCKS / 2; ++other", "other < U::BLOCKS / 2 - 1; ++other",
                CrossEntropyLoss, **_REGISTERS),
    _persistent("KeepsTheStage", "stage = number % Divided::STAGES * Divided::ROWS;",
                "stage = (number < 3 ? number : 0) % Divided::STAGES * Divided::ROWS;", CrossEntropyLoss, **_REGISTERS),
    _persistent("CountsTies", "__ffs(best) - 1 == wanted", "(best >> wanted & 1u) != 0u", CrossEntropyLoss, **_REGISTERS),
)  # fmt: skip
