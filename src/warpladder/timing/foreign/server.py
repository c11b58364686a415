"""Server in the process of a user's file: it loads the file, builds trainers, and answers one call after the other.

Its answers are not trusted: the file's code may change all of it. The climb's own process has the clock, the reference
and the results.
"""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import traceback
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import ladder
from ...checkpoint import net_from_json
from ...config import TrainConfig
from ...data.dataset import Dataset
from ...data.order import Order
from ...errors import WarpladderError
from ...files.python import OURS, bring
from ...proof.own.kernels import inspect
from ...rungs.base import Rung
from ...trainers.base import State, StepLog, Trainer
from ..source_text import texts
from ..task import train_in_calls
from .messages import receive, send
from .rights import restrict

#: Fields of `Rung` that another process needs.
FIELDS = (
    "name", "title", "idea", "deviations", "precision", "sums", "unit", "transforms", "proof_flops", "tunes", "peer",
    "weighs_samples",
)  # fmt: skip

#: Folders without user files: the package, the interpreter, and installed packages.
NOT_THEIRS = (Path(__file__).resolve().parents[2], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")))


class Server:
    """Server object with the trainers of one rung, by number, and their data sets; its methods answer the climb's
    calls.
    """

    def __init__(self) -> None:
        self.rung: Rung | None = None
        self.path: str | None = None
        self.trainers: dict[int, Trainer] = {}
        self.given: list[tuple[Dataset, int]] = []
        self.made = 0
        self.channel: socket.socket | None = None

    def open(self, name: str, path: str | None, outside: dict[str, Any]) -> dict[str, Any]:
        """Load the rung of a name with its options, and return its description."""
        bring(outside)
        self.path = path
        self.rung = ladder.find(name)
        return described(self.rung)

    def describe(self, name: str) -> dict[str, Any]:
        """Description of a variant of the rung."""
        return described(ladder.find(name))

    def unsupported(self, name: str, net: Any, config: Any) -> str | None:
        """Reason why a variant of the rung cannot train a net, or None."""
        return ladder.find(name).unsupported(net_from_json(net), TrainConfig.from_dict(config))

    def inspect(self, name: str, net: Any, config: Any) -> tuple[str, str]:
        """Summary of the checks of a user's kernels, and the command that repeats them."""
        settings = TrainConfig.from_dict(config)
        found = inspect(ladder.find(name), net_from_json(net), settings, self._abort)
        return found.text, found.command

    def _abort(self, message: str) -> None:
        """Send an error for a thread that hangs in a kernel, and end the process."""
        assert self.channel is not None
        send(self.channel, ["error", "RungError", message, "", True])
        os._exit(0)

    def build(self, net: Any, config: Any, state: State) -> int:
        self.made += 1
        self.trainers[self.made] = self._rung().build(net_from_json(net), TrainConfig.from_dict(config), state)
        return self.made

    def load(self, number: int, parts: dict[str, Any]) -> None:
        x, y, classes = parts["x"], parts["y"], parts["classes"]
        label = np.array([classes - 1], np.int32) if classes else None  # the test set may have more classes
        names = tuple(parts["class_names"])
        data = Dataset(
            parts["name"], x, y, x[:1].copy(), label, parts["scale"], class_names=names, train_weight=parts["weight"]
        )
        self.given.append((data, _checksum(data)))
        self.trainers[number].load(data)

    def run(self, number: int, order: Order, first: int, last: int) -> StepLog:
        return self.trainers[number].run(order, first, last)

    def run_epochs(self, number: int, orders: list[Order]) -> list[StepLog]:
        return self.trainers[number].run_epochs(orders)

    def turn(self, number: int, start: State | None, orders: list[Order], steps: int) -> tuple[list[StepLog], State]:
        """Train a timed repetition: begin at state `start`, train the first steps of each epoch; return logs and
        state.
        """
        trainer = self.trainers[number]
        if start is not None:
            trainer.set_state(start)
        return train_in_calls(trainer, trainer.config, orders, steps), trainer.state()

    def cut(self, number: int, start: State | None, calls: list[tuple[Order, int, int]]) -> tuple[list[StepLog], State]:
        """Train ranges of steps, each by its own call of the trainer; return logs and state."""
        trainer = self.trainers[number]
        if start is not None:
            trainer.set_state(start)
        return [trainer.run(*call) for call in calls], trainer.state()

    def state(self, number: int) -> State:
        return self.trainers[number].state()

    def set_state(self, number: int, state: State) -> None:
        self.trainers[number].set_state(state)

    def predict(self, number: int, x: Any, scale: float) -> Any:
        return self.trainers[number].predict(x, scale)

    def facts(self, number: int, name: str) -> Any:
        """Result of a trainer's method without arguments: memory, FLOPs, peak or spans."""
        return getattr(self.trainers[number], name)()

    def sources(self, number: int) -> dict[str, tuple[str, ...]]:
        return texts(self.trainers[number], self.path)

    def peak_memory(self, order: dict[str, Any]) -> int:
        """Peak memory of this process in bytes after some steps of a run."""
        from ..peak_memory import measured

        return measured(order)

    def close(self, number: int) -> None:
        trainer = self.trainers.pop(number)
        changed = [data.name for data, before in self.given if _checksum(data) != before]
        self.given = [] if not self.trainers else self.given
        trainer.close()
        if changed:
            raise WarpladderError("data: a data set is not what it was before training")

    def ready(self) -> None:
        """Do nothing: the answer shows that the process is awake."""

    def _rung(self) -> Rung:
        assert self.rung is not None
        return self.rung

    def answer(self, request: Any) -> Any:
        """Result of a call: ["ok", value], or ["error", class, message, place, is ours]."""
        try:
            name, *arguments = request
            return ["ok", getattr(self, name)(*arguments)]
        except BaseException as error:  # sys.exit and KeyboardInterrupt in the file's code too
            try:
                text = " ".join(str(error).split())[:2000]
            except BaseException as other:
                text = f"its text cannot be made, for that raises {type(other).__name__}"
            is_ours = isinstance(error, WarpladderError)
            kind = shorten(type(error).__name__, 80)
            return ["error", kind, text if is_ours else shorten(text, 400), self._place(error), is_ours]

    def _place(self, error: BaseException) -> str:
        """Last line of a user's file in an error's traceback, as "mine.py, line 7"."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename == self.path]
        own = own or [frame for frame in frames if not any(map(Path(frame.filename).is_relative_to, NOT_THEIRS))]
        return f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


def shorten(text: str, most: int) -> str:
    """Text of at most `most` letters, and three dots if it was longer; cut between words where it can be."""
    if len(text) <= most:
        return text
    return (text[:most].rpartition(" ")[0] or text[:most]) + " ..."


def _checksum(data: Dataset) -> int:
    found = 0
    for array in (data.train_weight, data.train_y, data.train_x):
        found = found if array is None else zlib.crc32(array.data, found)
    return found


def described(rung: Rung) -> dict[str, Any]:
    """Description of a rung as a message: its fields, and the names, kinds and help of its options."""
    kind = type(rung.options)
    ours = kind.__module__.startswith(OURS)
    return {
        **{name: getattr(rung, name) for name in FIELDS},
        "options": [kind.__module__, kind.__qualname__] if ours else [_option(*each) for each in kind.known()],
        "chosen": str(rung.options),
    }


def _option(name: str, kind: Any, help: str) -> list[Any]:
    known = type(kind).__module__.startswith(OURS) and is_dataclass(kind)
    values = {each.name: asdict(kind)[each.name] for each in fields(kind)} if known else {}
    return [name, type(kind).__qualname__ if known else "", values, str(help)]


def main(arguments: Sequence[str]) -> None:
    """Answer the calls from the socket with this file descriptor until it is closed."""
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    _end_with_the_parent()
    restrict()
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's warnings: a proof has NaN and infinity on purpose
    server = Server()
    server.channel = channel

    def fill(buffer: memoryview) -> None:
        while buffer:
            count = channel.recv_into(buffer)
            if not count:
                os._exit(0)  # the climb has ended
            buffer = buffer[count:]

    while True:
        answer = server.answer(receive(fill, 1 << 62))
        send(channel, answer)


def _end_with_the_parent() -> None:
    """Let the system kill this process when the climb's process ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
