"""Comparison of a pass over the test samples with the outputs of the package's array code at the same state.

A rung from a user's file could leave samples out where it is timed, or give out answers that no weights have.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from ..data.dataset import Dataset
from ..data.order import Order
from ..ladder import find
from ..proof.bounds import output_bound
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer
from .task import ClimbTask
from .turn import Refused
from .witness_losses import DEVIATING, ROUNDING, array_trainer, moved
from .witness_weights import norm

SAMPLES = 256  # most samples whose outputs are compared
MARGIN = 4.0  # largest error of these outputs, as a multiple of what array code is off by
TWINS = 2


class WatchedOutputs(Trainer):
    """Trainer that hands on to another one, and keeps its outputs for some samples of a pass, drawn anew.

    samples : number of samples of the pass.
    """

    def __init__(self, trainer: Trainer, samples: int) -> None:
        self.trainer, self.net, self.config = trainer, trainer.net, trainer.config
        self.has_cheap_calls = trainer.has_cheap_calls
        rng = np.random.default_rng(secrets.randbits(128))
        self.rows = np.sort(rng.choice(samples, min(samples, SAMPLES), replace=False))
        self.at, self.kept = 0, list[np.ndarray]()

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        out = self.trainer.predict(x, scale)
        first, last = np.searchsorted(self.rows, (self.at, self.at + len(x)))
        self.kept.append(np.array(out[self.rows[first:last] - self.at], subok=False))
        self.at += len(x)
        return out

    def load(self, dataset: Dataset) -> None:
        self.trainer.load(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self.trainer.run(order, first, last)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return self.trainer.run_epochs(orders)

    def state(self) -> State:
        return self.trainer.state()

    def set_state(self, state: State) -> None:
        self.trainer.set_state(state)


def check_outputs(rung: Rung, task: ClimbTask, state: State, watched: WatchedOutputs) -> None:
    """Raise `Refused` if the outputs of a pass over the test samples are not those of this state."""
    if find("numpy", precision="fp64").unsupported(task.net, task.config) is not None:
        return
    wide, rng = state.copied(np.float64), np.random.default_rng(0)
    rounding = ROUNDING[rung.precision] * (DEVIATING if rung.deviations else 1)
    truth = _outputs(task, wide, watched.rows)
    if not np.isfinite(truth).all():
        return
    others = [state, *(moved(wide, rounding, rng) for _ in range(TWINS))]
    near = max(norm(_outputs(task, other, watched.rows) - truth) for other in others)
    size, off = norm(truth), norm(np.concatenate(watched.kept) - truth)
    allowed = MARGIN * near + output_bound(task.net, rung.precision) * size
    if not off <= allowed:
        raise Refused(
            f"the outputs for test samples are not those of its weights: they are off by {off / size:.2g} of their "
            f"size, and {allowed / size:.2g} is rounding"
        )


def _outputs(task: ClimbTask, state: State, rows: np.ndarray) -> np.ndarray:
    with array_trainer(task, state) as trainer:
        return np.asarray(trainer.predict(np.ascontiguousarray(task.data.test_x[rows]), task.data.scale), np.float64)
