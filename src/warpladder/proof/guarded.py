"""`Watched`: a trainer under proof."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..errors import RungError
from ..nets import Net
from ..trainers.base import State, StepLog, Trainer
from .verdict import Refuted

Build = Callable[[Net, TrainConfig, State], Trainer]


class Watched:
    """A trainer whose exceptions are findings, and whose caller keeps no hold on it: it is given copies, which are then
    spoilt.
    """

    def __init__(self, build: Build, net: Net, config: TrainConfig, state: State) -> None:
        self.config = config
        mine = state.copied()
        self.trainer: Trainer = self._watch("build", build, net, config, mine)
        spoil(mine)

    def _watch(self, name: str, function: Callable[..., Any], *args: object) -> Any:
        try:
            return function(*args)
        except RungError:
            raise
        except Exception as error:
            raise Refuted("crash", f"crash: {name} raised {type(error).__name__}{_place(error)}: {error}") from error

    def load(self, dataset: Dataset) -> None:
        self._watch("load", self.trainer.load, dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self._watch(f"run of steps {first}..{last}", self.trainer.run, order, first, last)

    def run_epochs(self, orders: list[Order]) -> list[StepLog]:
        return self._watch(f"run_epochs of {len(orders)} epochs", self.trainer.run_epochs, orders)

    def state(self) -> State:
        return self._watch("state", self.trainer.state)

    def set_state(self, state: State) -> None:
        mine = state.copied()
        self._watch("set_state", self.trainer.set_state, mine)
        spoil(mine)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self._watch(f"predict of {len(x)} samples", self.trainer.predict, x, scale)


def _place(error: Exception) -> str:
    """Where in the file of the function that was called it happened, as " in mine.py, line 7"; empty where the call
    itself failed.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


def spoil(state: State) -> None:
    """Write NaN into a state's arrays, where they let us."""
    for a in (state.params, *state.slots.values()):
        if a.flags.writeable:
            a.fill(np.nan)
