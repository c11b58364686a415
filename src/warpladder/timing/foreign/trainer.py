"""`ForeignTrainer`: the trainer in the process of a user's file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...config import TrainConfig
from ...data.dataset import Dataset
from ...data.order import Order
from ...errors import RungError
from ...errors.arguments import kind_of
from ...nets import Net
from ...trainers.base import State, StepLog, Trainer, check_fit
from .messages import Unknown
from .process import ForeignProcess

if TYPE_CHECKING:
    from ..turn import StepRange

#: Most bytes of an answer without its arrays, and for each number of its arrays.
MORE, NUMBER = 1 << 20, 16


def wanted(kind: type[Any], method: str, value: Any) -> Any:
    """Value that a method of the user's trainer returned. Raises `RungError` if it is not of type `kind`."""
    if not isinstance(value, kind):
        found = value.kind if isinstance(value, Unknown) else kind_of(value)
        raise RungError(f"its method {method} returned {found}, and must return a {kind.__name__}")
    return value


class ForeignTrainer(Trainer):
    """Trainer in another process: calls are sent to it; logs and states come back as copies.

    number : number of the trainer in its process.
    """

    def __init__(self, process: ForeignProcess, number: int, net: Net, config: TrainConfig) -> None:
        self.process, self.number, self.net, self.config = process, number, net, config

    def _call(self, name: str, *arguments: Any, numbers: float = 0, seconds: float = 0.0) -> Any:
        """Result of a method of the server, with about `numbers` numbers in its arrays."""
        most = MORE + NUMBER * int(numbers)
        return self.process.request(name, self.number, *arguments, most=most, seconds=seconds)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        y, classes = dataset.train_y, dataset.classes
        parts = {
            "name": dataset.name, "x": dataset.train_x, "y": y, "scale": dataset.scale,
            "class_names": dataset.class_names, "classes": classes, "weight": dataset.train_weight,
        }  # fmt: skip
        self._call("load", parts)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return wanted(StepLog, "run", self._call("run", order, first, last, numbers=8 * max(0, last - first)))

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        return self._call("run_epochs", list(orders), numbers=8 * self._steps(orders))

    def turn(
        self, start: State | None, orders: Sequence[Order], steps: int, seconds: float
    ) -> tuple[list[StepLog], State]:
        """Logs and state of a timed repetition, received in one message; `seconds` is its expected time."""
        numbers = 8 * steps * len(orders) + self._state_numbers
        return self._call("turn", start, list(orders), steps, numbers=numbers, seconds=seconds)

    def cut(self, start: State | None, calls: Sequence[StepRange], seconds: float) -> tuple[list[StepLog], State]:
        """Logs and state of ranges of steps, each trained by its own call."""
        numbers = 8 * sum(last - first + 1 for _, first, last in calls) + self._state_numbers
        return self._call("cut", start, [tuple(call) for call in calls], numbers=numbers, seconds=seconds)

    def state(self) -> State:
        return wanted(State, "state", self._call("state", numbers=self._state_numbers))

    def set_state(self, state: State) -> None:
        self._call("set_state", state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        numbers = (len(x) + 1) * math.prod(self.net.out_shape)
        return wanted(np.ndarray, "predict", self._call("predict", x, scale, numbers=numbers))

    def memory(self) -> dict[str, int]:
        return self._call("facts", "memory")

    def flops(self) -> int:
        return self._call("facts", "flops")

    def peak(self) -> float | None:
        return self._call("facts", "peak")

    def spans(self) -> dict[str, float]:
        return self._call("facts", "spans")

    def texts(self) -> dict[str, tuple[str, ...]]:
        """Source lines of the trainer's code by name, as from `source_text.texts`."""
        return {str(name): tuple(map(str, lines)) for name, lines in self._call("sources").items()}

    def close(self) -> None:
        if not self.process.reason:
            self._call("close")

    @property
    def _state_numbers(self) -> int:
        return self.net.param_count * (4 + len(self.config.optimizer.slots))

    def _steps(self, orders: Sequence[Order]) -> int:
        return sum(self.config.steps(order.n) for order in orders)
