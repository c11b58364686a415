"""`Rounding`: a trainer of honest arithmetic in any precision."""

from __future__ import annotations

from functools import partial

import numpy as np

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets import Net
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State, StepLog, Trainer


class Rounding(Trainer):
    """Honest arithmetic of a precision: float64 with rounded factors, float32 weights."""

    def __init__(self, net: Net, config: TrainConfig, state: State, precision: str) -> None:
        self.net, self.config = net, config
        self.inner = ReferenceTrainer(net, config, state, precision)

    def load(self, dataset: Dataset) -> None:
        self.inner.load(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            logs.append(self.inner.run(order, step, step + 1))
            self.set_state(self.state())
        return StepLog(*(np.concatenate([np.zeros(0, t), *(getattr(log, k) for log in logs)]) for k, t in FIELDS))

    def state(self) -> State:
        return self.inner.state().copied(np.float32)

    def set_state(self, state: State) -> None:
        self.inner.set_state(state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self.inner.predict(x, scale).astype(np.float32)


FIELDS = (("loss", np.float64), ("correct", np.int64), ("size", np.int64))


def rounding(precision: str) -> partial[Rounding]:
    return partial(Rounding, precision=precision)
