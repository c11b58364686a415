"""Planted trainers by a reader of the proof: each is honest where its author expects the proof to look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from planted_operations import Planted, of_operation
from regime_liars import Masked, masked

from warpladder.data.order import Order
from warpladder.nets import CrossEntropyLoss, Linear, ReLU
from warpladder.trainers.base import StepLog

# Trainers


class DecaysLateSlots(Masked):
    """Rounds momentum to bfloat16 in calls of more steps than `at`."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log = self.inner.run(order, first, last)
        state = self.inner.state()
        if last - first > self.limit and state.slots:
            slots = {
                name: (a.view(np.uint32) & 0xFFFF0000).astype(np.uint32).view(np.float32)
                for name, a in state.slots.items()
            }
            self.inner.set_state(state.but(slots=slots))
        return log


class LosesTheFirstStepAfterAPrediction(Masked):
    """Leaves out the step that follows a prediction of more samples than `at`."""

    armed = False

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self.armed = len(x) > self.limit
        return self.inner.predict(x, scale)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        before = self.inner.state().copied() if self.armed else None
        log = self.inner.run(order, first, last)
        if before is not None:
            self.inner.set_state(before.but(step=before.step + last - first))
        self.armed = False
        return log


class TrainsOnCopiesOfOldSamples(Masked):
    """Trains a second epoch of a call on the samples of the first, in its own order."""

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        logs = []
        for number, order in enumerate(orders):
            same = number > self.limit and number % 2
            logs.append(self.inner.run(orders[number - 1] if same else order, 0, self.config.steps(order.n)))
        return logs


class ForgetsALoadInARow(Masked):
    """Ignores a data set with as many samples as the one before, if it was loaded after a prediction."""

    n, predicted = 0, False

    def load(self, dataset: Any) -> None:
        if not (self.predicted and len(dataset.train_x) == self.n):
            self.inner.load(dataset)
        self.n, self.predicted = len(dataset.train_x), False

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self.predicted = True
        return self.inner.predict(x, scale)


# Operations


class RoundsLargeWeights:
    """Computes with half precision where weights are above 64."""

    def forward(self: Any, n: int) -> None:
        w, held = self.buffers.w, self.buffers.w.copy()
        large = np.abs(w) > 64
        w[large] = w[large].astype(np.float16)
        super().forward(n)  # type: ignore[misc]
        w[...] = held


class DropsASmallBias:
    """Takes biases below 10^-3 of their largest for zero."""

    def forward(self: Any, n: int) -> None:
        b, held = self.buffers.b, self.buffers.b.copy()
        b[np.abs(b) < 1e-3 * np.abs(b).max()] = 0
        super().forward(n)  # type: ignore[misc]
        b[...] = held


class StopsAtEqualOutputs:
    """Computes no gradient for units whose outputs are equal in a whole batch."""

    def backward(self: Any, n: int) -> None:
        t = self.buffers
        still = (t.y[:n] == t.y[:1]).reshape(n, t.y.shape[1], -1).all(axis=(0, 2))
        super().backward(n)  # type: ignore[misc]
        if n > 1:
            t.dw[still] = 0


class SkipsBlankSamples:
    """Leaves out samples whose input is zero."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        blank = (t.x[:n].reshape(n, -1) == 0).all(axis=1)
        if blank.any():
            t.db[...] -= t.dy[:n][blank].sum(axis=0)


class SharesAHugeLoss:
    """Cuts a sample's loss at 50 in the log."""

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        if has_loss:
            x = self.x[:n].astype(np.float64)
            lost = (
                np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))
                + x.max(axis=1)
                - x[np.arange(n), self.target[:n]]
            )
            self.loss[0] -= np.maximum(lost - 50, 0).mean()


class DropsSmallTermsOfABias:
    """Leaves terms below 10^-4 of their sum out of a bias's gradient."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        d = t.dy[:n]
        t.db[...] -= np.where(np.abs(d) < 1e-4 * np.abs(d.sum(axis=0)), d, 0).sum(axis=0)


class DropsSmallTermsOfAWeight:
    """Leaves terms below 10^-4 of their sum out of a weight's gradient."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t = self.buffers
        terms = t.dy[:n, :, None] * t.x[:n, None]
        t.dw[...] -= np.where(np.abs(terms) < 1e-4 * np.abs(terms.sum(axis=0)), terms, 0).sum(axis=0)


class DropsSmallProducts:
    """Leaves products below 10^-4 of their sum out of an output."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        t = self.buffers
        for x, y in zip(t.x[:n], t.y[:n], strict=True):
            terms = t.w * x
            y -= np.where(np.abs(terms) < 1e-4 * np.abs(y[:, None]), terms, 0).sum(axis=1)


class LetsTiesTrain:
    """Lets half of the gradient through where a ReLU's input is exactly 0."""

    def backward(self: Any, n: int) -> None:
        t = self.buffers
        zero, dy = t.x[:n] == 0, t.dy[:n].copy()
        super().backward(n)  # type: ignore[misc]
        if t.dx is not None:
            t.dx[:n][zero] = dy[zero] / 2


READER_CALLS = (
    masked(DecaysLateSlots, 3, "long runs", momentum=0.9),
    masked(DecaysLateSlots, 3, "long runs", "loops", momentum=0.9),
    masked(DecaysLateSlots, 3, "long runs", "native", momentum=0.9),
    masked(LosesTheFirstStepAfterAPrediction, 64, "predictions"),
    masked(LosesTheFirstStepAfterAPrediction, 2, "predictions", "native"),
    masked(TrainsOnCopiesOfOldSamples, 2, "calls"),
    masked(TrainsOnCopiesOfOldSamples, 2, "calls", "native"),
    masked(ForgetsALoadInARow, 0, "keys"),
)  # fmt: skip
DROPPED: tuple[Planted, ...] = (
    *of_operation(Linear, DropsSmallTermsOfABias), *of_operation(Linear, DropsSmallTermsOfAWeight),
    *of_operation(Linear, DropsSmallProducts),
)  # fmt: skip
READER_OPERATIONS: tuple[Planted, ...] = (
    *of_operation(Linear, RoundsLargeWeights, CrossEntropyLoss),
    *of_operation(Linear, DropsASmallBias, CrossEntropyLoss),
    *of_operation(Linear, StopsAtEqualOutputs, CrossEntropyLoss),
    *of_operation(Linear, SkipsBlankSamples, CrossEntropyLoss),
    *of_operation(CrossEntropyLoss, SharesAHugeLoss, CrossEntropyLoss),
    *of_operation(ReLU, LetsTiesTrain),
)  # fmt: skip
