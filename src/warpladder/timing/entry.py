"""`TimedEntry`: one rung of a climb, with its trainer and its results so far."""

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

#: Most seconds to build one of the package's trainers again: imports, compilations and searches were for the first.
REBUILT = 1.5


@dataclass
class TimedEntry:
    """Rung of a climb with its trainer and its results so far.

    The first failure of any kind sets `alive` to False: one rung never stops a climb.

    found : known fields of `RungResult`, by name.
    per_epoch : estimated seconds of an epoch.
    peak : FLOP/s of the computing unit; None for this CPU.
    samples : samples trained in a repetition.
    seconds, cpu_seconds, other_seconds : wall time of each repetition, processor time of the trainer, and processor
    time of other processes if it is known.
    clocks : GPU clock at the end of each repetition.
    logs, ends : bits of the step logs, and final state, of each repetition.
    turns : work of each repetition.
    epochs : mean loss, share of right samples (None if not computed) and seconds of each whole epoch, by its number.
    stage : number of finished parts of the climb.
    passed : verdict of a proof in another process.
    allowance : most seconds of training for the test accuracy.
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
        """True if the rung's code is not the package's: each timed repetition then gets newly drawn work."""
        return not is_own(self.rung)

    def turn(self, number: int) -> Turn:
        """Work of repetition `number`, from 0: the orders of its epochs; for code from outside newly drawn orders, and
        a changed start.
        """
        first, epochs = number * self.plan.epochs, self.plan.epochs
        if self.is_outside:
            return fresh_turn(self.task, self.ends[-1] if self.ends else self.task.start(), first, epochs)
        return Turn(None, [self.task.order(epoch) for epoch in range(first, first + epochs)])

    @property
    def is_exact(self) -> bool:
        """True if the rung must give the reference's bits and batches; a peer that declares deviations need not."""
        return not self.rung.deviations

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Catch an error in this context, and store it as the rung's status and reason."""
        try:
            yield
        except Exception as error:
            status = "refused" if isinstance(error, Refused) else "failed"
            place = user_place(error, self.rung.path)
            name = "" if isinstance(error, WarpladderError) else f"{type(error).__name__}{place}: "
            hint = kernel_hint(self.rung.path) if isinstance(error, ForeignEnd) else ""
            self.give_up(status, f"{'' if isinstance(error, Refused) else doing + ': '}{name}{error}{hint}")
        except SystemExit as error:  # raised by a rung in this process
            self.give_up("failed", f"{doing}: its code calls sys.exit({error.code})")

    def give_up(self, status: str, reason: str) -> None:
        """Stop the rung: store its status and reason, and release its trainer."""
        self.alive = False
        self.found |= {"status": status, "reason": line(reason)}
        self.end()

    def check_support(self) -> None:
        """Check once if the rung can train the task on this machine; else store the reason."""
        if self.is_checked:
            return
        self.is_checked = True
        with self.guarded("check"):
            reason = self.rung.unsupported(self.task.net, self.task.config) or self.rung.unfit(self.task.data)
            if reason is not None:
                self.give_up("unsupported", reason)

    def close(self) -> None:
        """Release the trainer's memory and threads."""
        trainer, self.trainer = self.trainer, None
        if trainer is not None:
            trainer.close()

    def end(self) -> None:
        """Release the trainer, and end the process of a rung from a user's file."""
        try:
            with suppress(Exception):  # the rung's time, or the reason for none, is known
                self.close()
        finally:
            printed = foreign.end(self.rung)
            if printed and "printed" not in self.found.get("reason", ""):
                self.remark(printed)

    def remark(self, text: str) -> None:
        """Append a remark to the reason of a rung that stays in the climb."""
        self.found["reason"] = "; ".join(filter(None, (self.found.get("reason", ""), line(text))))

    def note_peak_memory(self, found: int | None, reason: str) -> None:
        """Store the peak memory in bytes, or None and the reason why it was not measured."""
        self.found["peak_rss_bytes"] = found
        self.remark(f"peak memory not measured: {reason}" if found is None else "")

    def timing(self) -> Timing:
        """Timing of the repetitions so far, as results store it."""
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
        """GPU clocks in MHz and reasons why they were lowered; empty if a repetition has no clock."""
        if not self.clocks or len(self.clocks) != len(self.seconds):
            return {}
        return {
            "clocks": tuple(reading.mhz for reading in self.clocks),
            "slowed": tuple(", ".join(reading.slowed) for reading in self.clocks),
        }

    def trained(self) -> tuple[int, State]:
        """Number of whole epochs trained by the timed run, at most those of the test accuracy, and the state after
        them.
        """
        is_training = self.plan.steps == self.task.steps and not self.is_outside
        ends = enumerate(self.ends, 1) if is_training else ()
        return max(
            ((number * self.plan.epochs, end) for number, end in ends if number * self.plan.epochs <= self.task.epochs),
            key=lambda reached: reached[0],
            default=(0, self.task.start()),
        )

    @property
    def test_pass(self) -> float:
        """Estimated seconds of a pass over the test samples: a third of a training step's work is its forward pass."""
        return len(self.task.data.test_x) * self.per_epoch / (3 * self.task.n)

    @property
    def tests(self) -> float:
        """Estimated seconds of the passes over the test samples: two short passes, one long pass, or none. A rung from
        a user's file has two in any case.
        """
        is_long = self.test_pass >= self.task.budget
        if not self.task.is_scored or (is_long and not self.is_affordable):
            return 0.0
        return self.test_pass * (1 if is_long and not self.is_outside else 2)

    def training(self) -> float:
        """Estimated seconds of the training that is still needed for the test accuracy."""
        left = self.task.epochs - self.trained()[0]
        return left * self.per_epoch if left else 0.0

    @property
    def is_affordable(self) -> bool:
        """True if the training that the test accuracy still needs fits the budget."""
        return self.training() <= min(TRAINING * self.task.budget, self.allowance)

    def left(self, proof: float, settle: float, rounds: int | None = None, is_trained: bool = True) -> float:
        """Estimated seconds to the end of this rung's work.

        proof : seconds of its proof, if it is not proven yet. settle : seconds before each repetition.
        rounds : further repetitions; None for all missing ones. is_trained : False leaves out training for the
        accuracy.
        """
        rounds = self.task.repeats - len(self.seconds) if rounds is None else rounds
        if self.trainer is None and not self.seconds:
            return proof + max(1, rounds) * (settle + 0.5)
        training = self.training() if is_trained and self.task.is_scored and self.is_affordable else 0.0
        tests = 0.0 if "spans" in self.found else self.tests
        return rounds * (settle + self.repetition) + tests + (0.0 if self.is_repeated else self.replay + training)

    @property
    def repetition(self) -> float:
        """Estimated seconds of a repetition."""
        return self.per_epoch * self.plan.epochs * self.plan.steps / self.task.steps

    @property
    def replay(self) -> float:
        """Estimated seconds to build a new trainer and train one repetition again."""
        made = sum(self.found.get(part) or 0.0 for part in ("build_seconds", "load_seconds", "first_seconds"))
        return (made if self.is_outside else min(made, REBUILT)) + self.repetition


def finite(value: float | None) -> float | None:
    """Number as JSON can store it: None for NaN and infinity."""
    return float(value) if value is not None and math.isfinite(value) else None


def user_place(error: BaseException, path: str | None) -> str:
    """Place of an error in a user's file, as " in mine.py, line 7", from its traceback; empty if the file is not
    there.
    """
    if place := getattr(error, "place", ""):  # the error was raised in another process
        return f" in {place}"
    if path is None:
        return ""
    file = Path(path).expanduser().resolve()
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f" in {file.name}, line {own[-1].lineno}" if own else ""


def line(text: str) -> str:
    """Text as one printable line of at most 600 characters."""
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in text)[:600]
