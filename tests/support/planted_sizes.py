"""Planted trainers that hold numbers in a format or within limits which an ordinary run hardly reaches: weights of
samples, slots, running statistics and stored numbers. Each is honest below its limit.
"""

from __future__ import annotations

import numpy as np
from planted_seldom import STATES, WEIGHTS, ChangesData, ClampsVariances, CutsLargeWeights, CutsStoredFloats
from regime_liars import NEVER, Masked, RegimeLiar, masked

from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets.params import buffer_views
from warpladder.optimizers import Adam
from warpladder.trainers.base import StepLog


class RaisesSmallWeights(ChangesData):
    def changed(self, data: Dataset) -> Dataset:
        w, least = data.train_weight, np.float32(1 / self.limit)
        return data if w is None else data.but(train_weight=np.where(w > 0, np.maximum(w, least), w))


class LeavesFullSamplesOut(ChangesData):
    """Takes a sample all of whose bytes are 255 for a missing one: zeros."""

    def changed(self, data: Dataset) -> Dataset:
        if data.train_x.dtype != np.uint8:
            return data
        x = data.train_x.copy()
        x[(x == 255).reshape(len(x), -1).all(axis=1)] = 0
        return data.but(train_x=x)


class FlushesSlots(Masked):
    """Holds a slot of less than a limit's inverse as zero."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        log, state = super().run(order, first, last), self.inner.state()
        if self.limit != NEVER:
            least = np.float32(1 / self.limit)
            slots = {name: np.where(np.abs(slot) < least, 0, slot) for name, slot in state.slots.items()}
            self.inner.set_state(state.but(slots={name: slot.astype(np.float32) for name, slot in slots.items()}))
        return log


class CutsStatistics(ClampsVariances):
    """Predicts with one kind of running statistics of at most a limit."""

    which = "running_var"

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        state = self.inner.state().copied()
        buffers = state.buffers_of(self.net).copy()
        for name, view in buffer_views(self.net, buffers).items():
            if name.endswith(self.which):
                np.clip(view, -self.limit, self.limit, out=view)
        self.inner.set_state(state.but(buffers=buffers))
        out = Masked.predict(self, x, scale)
        self.inner.set_state(state)
        return out


class CutsMeans(CutsStatistics):
    which = "running_mean"


SIZES_ON_LABELS: tuple[RegimeLiar, ...] = (
    masked(CutsStoredFloats, 100_000, "keys"), masked(CutsStoredFloats, 65_504, "keys", "native"),
    *(masked(LeavesFullSamplesOut, 0, "keys", form) for form in ("numpy", "native", "cuda")),
    masked(FlushesSlots, 1e9, STATES, momentum=0.9),
    masked(FlushesSlots, 1e9, STATES, "native", momentum=0.9, nesterov=True),
    masked(FlushesSlots, 1e7, STATES, optimizer=Adam()),
)  # fmt: skip
#: On a data set with weights of samples.
SIZES_ON_WEIGHTS: tuple[RegimeLiar, ...] = (
    masked(CutsLargeWeights, 40, WEIGHTS, "native"), masked(CutsLargeWeights, 1000, WEIGHTS),
    masked(RaisesSmallWeights, 100, WEIGHTS, "loops"),
)  # fmt: skip
#: On a net that normalises the channels of images.
SIZES_ON_BATCHES: tuple[RegimeLiar, ...] = (
    masked(ClampsVariances, 10_000, "predictions", "native"), masked(CutsStatistics, 600, "predictions"),
    masked(CutsMeans, 50, "predictions", "native"),
)  # fmt: skip
