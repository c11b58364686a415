"""`TimedEntry`: one rung of a climb, with everything that was found out about it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import WarpladderError
from ..results import Checked, Timing
from ..rungs.base import Rung
from ..trainers.base import State, Trainer
from .foreign import rung as foreign
from .foreign.process import ForeignEnd
from .gpu_clock import ClockReading
from .kernel_files import kernel_hint
from .own import is_own
from .task import TRAINING, ClimbTask, TimingPlan
from .turn import Refused, Turn, fresh_turn


@dataclass
class TimedEntry:
    """A rung of a climb, its trainer while there is one, and what was found out about it.

    The first thing that goes wrong, whatever it is, sets `alive` to False: one rung never stops a climb.

    found : fields of `RungResult` by name, as far as they are known.
    per_epoch : estimated seconds of an epoch.
    peak : FLOP/s of a unit that is not this CPU.
    samples : trained in a repetition.
    seconds, cpu_seconds, other_seconds : of each repetition; of other processes too, as far as they are known.
    clocks : of the GPU, at the end of each repetition.
    logs, ends : bits of the step logs, and final state, of each repetition.
    turns : work of each repetition.
    epochs : of each epoch that was trained whole: mean loss and share of right samples, None if they were not computed,
    and seconds.
    stage : number of parts of the climb that are done.
    passed : verdict of a process of its own.
    allowance : seconds that training for the test accuracy may take at most.
    sources : source lines by name.
    """

    rung: Rung
    task: ClimbTask
    alive: bool = True
    found: dict[str, Any] = field(default_factory=dict)
    trainer: Trainer | None = None
    plan: TimingPlan = field(default_factory=lambda: TimingPlan(1, 1))
    per_epoch: float = math.inf
    peak: float | None = None
    samples: int = 0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    other_seconds: list[float] = field(default_factory=list)
    clocks: list[ClockReading] = field(default_factory=list)
    logs: list[bytes] = field(default_factory=list)
    ends: list[State] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    epochs: dict[int, tuple[float | None, float | None, float]] = field(default_factory=dict)
    stage: int = 0
    is_checked: bool = False  # `check_support` has run
    passed: Checked | None = None
    allowance: float = math.inf
    is_repeated: bool = False
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def is_outside(self) -> bool:
        """True if its code is not the package's: it is timed on work that it could not know before."""
        return not is_own(self.rung)

    def turn(self, number: int) -> Turn:
        """Work of a repetition."""
        first, epochs = number * self.plan.epochs, self.plan.epochs
        if self.is_outside:
            return fresh_turn(self.task, self.ends[-1] if self.ends else self.task.start(), first, epochs)
        return Turn(None, [self.task.order(epoch) for epoch in range(first, first + epochs)])

    @property
    def is_exact(self) -> bool:
        """True if it must give our bits and batches; a peer that declares deviations need not."""
        return not self.rung.deviations

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Turn an error into the rung's status and reason."""
        try:
            yield
        except Exception as error:
            status = "refused" if isinstance(error, Refused) else "failed"
            place = user_place(error, self.rung.path)
            name = "" if isinstance(error, WarpladderError) else f"{type(error).__name__}{place}: "
            hint = kernel_hint(self.rung.path) if isinstance(error, ForeignEnd) else ""
            self.give_up(status, f"{'' if isinstance(error, Refused) else doing + ': '}{name}{error}{hint}")
        except SystemExit as error:  # of a rung in this process
            self.give_up("failed", f"{doing}: its code calls sys.exit({error.code})")

    def give_up(self, status: str, reason: str) -> None:
        """End the rung's part in the climb."""
        self.alive = False
        self.found |= {"status": status, "reason": line(reason)}
        self.end()

    def check_support(self) -> None:
        """Find out, once, whether the rung can train the task here."""
        if self.is_checked:
            return
        self.is_checked = True
        with self.guarded("check"):
            reason = self.rung.unsupported(self.task.net, self.task.config)
            if reason is not None:
                self.give_up("unsupported", reason)

    def close(self) -> None:
        """Release the trainer."""
        trainer, self.trainer = self.trainer, None
        if trainer is not None:
            trainer.close()

    def end(self) -> None:
        """Release the trainer, and end the process of a rung from outside."""
        try:
            with suppress(Exception):  # the rung's time, or the reason why it has none, is known
                self.close()
        finally:
            printed = foreign.end(self.rung)
            if printed and "printed" not in self.found.get("reason", ""):
                self.remark(printed)

    def remark(self, text: str) -> None:
        """Add to the reason of a rung that goes on."""
        self.found["reason"] = "; ".join(filter(None, (self.found.get("reason", ""), line(text))))

    def note_peak_memory(self, found: int | None, reason: str) -> None:
        """Note the peak memory in bytes, or None and the reason why it was not measured."""
        self.found["peak_rss_bytes"] = found
        self.remark(f"peak memory not measured: {reason}" if found is None else "")

    def timing(self) -> Timing:
        """The repetitions so far, as results store them."""
        return Timing(
            seconds=tuple(self.seconds),
            cpu_seconds=tuple(self.cpu_seconds),
            other_seconds=tuple(self.other_seconds) if len(self.other_seconds) == len(self.seconds) else None,
            steps=self.plan.steps * self.plan.epochs,
            samples=self.samples,
            epoch_steps=self.task.steps,
            epoch_samples=self.task.samples(self.task.steps),
            of_epochs=self.plan.epochs,
            **self._clocks(),
        )

    def _clocks(self) -> dict[str, Any]:
        """Clocks of the GPU in MHz and reasons why they were lowered, if each repetition has one."""
        if not self.clocks or len(self.clocks) != len(self.seconds):
            return {}
        return {
            "clocks": tuple(reading.mhz for reading in self.clocks),
            "slowed": tuple(", ".join(reading.slowed) for reading in self.clocks),
        }

    def trained(self) -> tuple[int, State]:
        """Whole epochs of the timed run, not more than the test accuracy needs, and the state after them."""
        is_training = self.plan.steps == self.task.steps and not self.is_outside
        ends = enumerate(self.ends, 1) if is_training else ()
        return max(
            ((number * self.plan.epochs, end) for number, end in ends if number * self.plan.epochs <= self.task.epochs),
            key=lambda reached: reached[0],
            default=(0, self.task.start()),
        )

    @property
    def test_pass(self) -> float:
        """Estimated seconds of a pass over the test samples: a third of a step's work is its forward pass."""
        return len(self.task.data.test_x) * self.per_epoch / (3 * self.task.n)

    def training(self) -> float:
        """Estimated seconds of the training that the test accuracy still needs."""
        left = self.task.epochs - self.trained()[0]
        return left * self.per_epoch if left else 0.0

    @property
    def is_affordable(self) -> bool:
        """True if the training that the test accuracy still needs is short enough."""
        return self.training() <= min(TRAINING * self.task.budget, self.allowance)

    def left(self, proof: float, settle: float, rounds: int | None = None) -> float:
        """Estimated seconds to its end.

        proof : seconds of its proof, if there is none yet. settle : seconds before each repetition.
        rounds : further repetitions; None for all that are left.
        """
        rounds = self.task.repeats - len(self.seconds) if rounds is None else rounds
        if self.trainer is None and not self.seconds:
            return proof + max(1, rounds) * (settle + 0.5)
        repetition = self.per_epoch * self.plan.epochs * self.plan.steps / self.task.steps
        training = self.training() if self.task.is_scored and self.is_affordable else 0.0
        tests = 2 * self.test_pass if self.task.is_scored and "spans" not in self.found else 0.0
        return rounds * (settle + repetition) + tests + (0.0 if self.is_repeated else self.replay + training)

    @property
    def replay(self) -> float:
        """Estimated seconds of a new trainer that makes a repetition again."""
        made = sum(self.found.get(part) or 0.0 for part in ("build_seconds", "load_seconds", "first_seconds"))
        return made + self.per_epoch * self.plan.epochs * self.plan.steps / self.task.steps


def finite(value: float | None) -> float | None:
    """The number as JSON can hold it: None for NaN and infinity."""
    return float(value) if value is not None and math.isfinite(value) else None


def user_place(error: BaseException, path: str | None) -> str:
    """Last line of a user's file in an error's traceback, as " in mine.py, line 7"; empty if there is none."""
    if place := getattr(error, "place", ""):  # of an error in another process
        return f" in {place}"
    if path is None:
        return ""
    file = Path(path).expanduser().resolve()
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f" in {file.name}, line {own[-1].lineno}" if own else ""


def line(text: str) -> str:
    """One printable line of at most 600 characters."""
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in text)[:600]
