"""One rung on the bench: built, checked, timed, and made to repeat without a clock what it did with one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ..errors import WarpladderError
from ..ladder import PEERS
from ..machine import busy_seconds
from ..nets import CrossEntropyLoss
from ..results import Checked, RungResult, Timing
from ..rungs.base import Rung
from ..train import score
from ..trainers.base import State, StepLog, Trainer
from ..verify import verify
from .footprint import peak_rss
from .task import PROBE, TRAINING, Plan, Task, plan


class Refused(WarpladderError):
    """A time that is not believed."""


@dataclass
class Contender:
    """A rung, its trainer while it is on the bench, and what has been found out about it.

    `alive` turns false with the first thing that goes wrong, whatever it is: one rung never stops a climb.
    """

    rung: Rung
    task: Task
    alive: bool = True
    found: dict[str, Any] = field(default_factory=dict)
    trainer: Trainer | None = None
    plan: Plan = field(default_factory=lambda: Plan(1, 1))
    per_epoch: float = math.inf  # estimated seconds
    peak: float | None = None  # FLOP/s of a unit that is not this CPU
    samples: int = 0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    other_seconds: list[float] = field(default_factory=list)
    logs: list[bytes] = field(default_factory=list)
    ends: list[bytes] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether it is held to our bits and batches; a peer that declares deviations is not."""
        return not self.rung.deviations

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Turn what goes wrong into the rung's status and reason."""
        try:
            yield
        except Exception as error:
            status = "refused" if isinstance(error, Refused) else "failed"
            name = "" if isinstance(error, WarpladderError) else f"{type(error).__name__}: "
            self.give_up(status, f"{'' if isinstance(error, Refused) else doing + ': '}{name}{error}")

    def give_up(self, status: str, reason: str) -> None:
        self.alive = False
        self.found |= {"status": status, "reason": line(reason)}
        self.close()

    def check(self) -> None:
        """Ask the rung whether it can train this, then the float64 reference whether it does."""
        with self.guarded("check"):
            reason = self.rung.unsupported(self.task.net, self.task.config)
            if reason is not None:
                self.give_up("unsupported", reason)
                return
            verdict = verify(
                self.rung.build,
                self.task.net,
                self.task.config,
                dataset=self.task.data,
                bitwise=self.exact,
                precision=self.rung.precision,
                transforms=self.rung.transforms,
            )
            self.found["check"] = Checked(verdict.passed, finite(verdict.error), finite(verdict.bound), line(verdict.reason))
            if not verdict.passed:
                self.give_up("failed", verdict.reason)

    def weigh(self) -> None:
        """Peak memory, in a process of its own; a rung that cannot be weighed is timed all the same."""
        found, reason = peak_rss(self.rung, self.task.net, self.task.data, self.task.config)
        self.found["peak_rss_bytes"] = found
        self.remark(f"peak memory not measured: {reason}" if found is None else "")

    def prepare(self) -> None:
        """Build, load, warm up, and plan the repetitions. Ends at the initial state."""
        with self.guarded("first steps"):
            self.found["build_seconds"], self.trainer = clocked(lambda: self.rung.build(self.task.net, self.task.config, self.task.start()))
            trainer = self.trainer
            self.found["load_seconds"], _ = clocked(lambda: trainer.load(self.task.data))
            self.found["first_seconds"], _ = clocked(lambda: self._run(trainer, 0, 0, 1))
            self.found["flops"] = trainer.flops()
            self.peak = trainer.peak()
            self.found["floor_seconds"] = None
            per_step = self._probe(trainer)
            self.per_epoch = per_step * self.task.steps
            self.plan = plan(self.task, per_step)
            trainer.set_state(self.task.start())

    def _probe(self, trainer: Trainer) -> float:
        """Seconds per step, the least of ever longer runs until there is time enough or no step more; also warms the last step's code."""
        count, total, best = 0, 0.0, math.inf
        while total < 2 * PROBE and count < self.task.steps:
            count = min(self.task.steps, 4 * count or 1)
            seconds, _ = clocked(partial(self._run, trainer, 0, 0, count))
            total += seconds
            best = min(best, seconds / count)
        if count < self.task.steps:
            self._run(trainer, 0, self.task.steps - 1, self.task.steps)
        return best

    def repeat(self, number: int) -> None:
        """One timed repetition. The clock stops when the weights have been copied out, so that no work can be put off until after it."""
        trainer = self.trainer
        assert trainer is not None
        with self.guarded("timed steps"):
            busy, cpu, start = busy_seconds(), process_time(), perf_counter()
            logs = self._repetition(trainer, number)
            state = trainer.state()
            seconds, cpu, after = perf_counter() - start, process_time() - cpu, busy_seconds()
            self.samples = self._counted(logs)
            self.seconds.append(seconds)
            self.cpu_seconds.append(cpu)
            if busy is not None and after is not None:
                self.other_seconds.append(max(0.0, after - busy - cpu))
            self.logs.append(log_bits(logs))
            self.ends.append(state_bits(state))

    def _repetition(self, trainer: Trainer, number: int) -> list[StepLog]:
        first = number * self.plan.epochs
        if self.plan.steps == self.task.steps:
            return trainer.run_epochs([self.task.order(epoch) for epoch in range(first, first + self.plan.epochs)])
        return [self._run(trainer, epoch, 0, self.plan.steps) for epoch in range(first, first + self.plan.epochs)]

    def _run(self, trainer: Trainer, epoch: int, first: int, last: int) -> StepLog:
        return trainer.run(self.task.order(epoch), first, last)

    def _counted(self, logs: list[StepLog]) -> int:
        """Samples trained in a repetition, by the logs of its steps; refuses logs that do not show the work that was asked for."""
        expected = np.minimum(
            self.task.config.batch(self.task.n), self.task.n - np.arange(self.plan.steps) * self.task.config.batch(self.task.n)
        )
        for log in logs:
            if self.exact and not np.array_equal(log.size, expected):
                raise Refused("the timed steps did not train the batches that were asked for")
            if not np.isfinite(log.loss).all():
                raise Refused(
                    f"the loss is not finite at step {int(np.flatnonzero(~np.isfinite(log.loss))[0])}: try a smaller learning rate"
                )
        return int(sum(log.size.sum() for log in logs))

    def believe(self, fma_peak: float) -> None:
        """Refuse a time below the floor: the FLOPs that the rung itself declares, at the peak that was measured."""
        with self.guarded("floor"):
            peak = self.peak or fma_peak
            floor = self.found["flops"] / peak
            self.found["floor_seconds"] = floor * self.task.samples(self.task.steps)
            fastest = min(self.seconds) / self.samples
            if not fastest >= floor:
                raise Refused(
                    f"{fastest * 1e6:.3g} us a sample is below the floor of {floor * 1e6:.3g} us: "
                    f"{self.found['flops']:,} FLOPs at the {peak / 1e9:.0f} GFLOP/s that {'its GPU' if self.peak else 'this machine'} can do"
                )

    def replay(self) -> None:
        """Train the timed steps again in a new trainer, without a clock, compare every bit, and train on for the test accuracy."""
        if self.trainer is not None:
            self.found["spans"] = {name: float(seconds) for name, seconds in self.trainer.spans().items()}
            self.found["held_bytes"] = {name: int(size) for name, size in self.trainer.memory().items()}
        self.close()
        task, plan = self.task, self.plan
        affordable = self.per_epoch * task.epochs <= TRAINING * task.budget
        if not affordable:
            self.remark(
                f"not trained for its accuracy: {task.epochs} epochs would take about {self.per_epoch * task.epochs / 60:.0f} minutes"
            )
        with self.guarded("repeated steps"), self.rung.build(task.net, task.config, task.start()) as trainer:
            trainer.load(task.data)
            self.found["same_bits"] = True
            timed = task.repeats * plan.epochs
            if plan.steps < task.steps:  # parts of epochs train towards nothing: repeat them, and start again
                for number in range(task.repeats):
                    self._compare(number, self._repetition(trainer, number), trainer.state())
                trainer.set_state(task.start())
                timed = 0
            logs = []
            for epoch in range(max(timed, task.epochs if affordable else 0)):
                if affordable and epoch == task.epochs:
                    self._score(trainer)
                logs.append(self._run(trainer, epoch, 0, task.steps))
                if epoch < timed and (epoch + 1) % plan.epochs == 0:
                    self._compare(epoch // plan.epochs, logs, trainer.state())
                    logs = []
            if affordable and task.epochs >= timed:
                self._score(trainer)

    def _compare(self, number: int, logs: list[StepLog], state: State) -> None:
        same = log_bits(logs) == self.logs[number] and state_bits(state) == self.ends[number]
        if same:
            return
        self.found["same_bits"] = False
        if self.exact:
            raise Refused(f"the timed run does not end in the bits of an untimed run of the same steps (repetition {number + 1})")

    def _score(self, trainer: Trainer) -> None:
        data, labelled = self.task.data, isinstance(self.task.net.loss, CrossEntropyLoss)
        if len(data.test_x) == 0 or (labelled and data.test_y is None):
            self.remark("no test accuracy: the test set has no labels" if len(data.test_x) else "no test accuracy: there is no test set")
            return
        result = score(trainer, data.test_x, data.test_y, data.scale)
        if not math.isfinite(result.loss):
            self.remark("the test loss is not finite: training diverged")
        self.found |= {
            "trained_epochs": self.task.epochs,
            "test_loss": finite(result.loss),
            "test_accuracy": finite(result.accuracy) if labelled else None,
        }

    def remark(self, text: str) -> None:
        """Add to the reason of a rung that goes on."""
        self.found["reason"] = "; ".join(filter(None, (self.found.get("reason", ""), line(text))))

    def close(self) -> None:
        trainer, self.trainer = self.trainer, None
        if trainer is not None:
            trainer.close()

    def result(self) -> RungResult:
        """What has been found, as it is stored."""
        if self.alive:
            self.found["status"] = "timed"
            self.found["timing"] = Timing(
                seconds=tuple(self.seconds),
                cpu_seconds=tuple(self.cpu_seconds),
                other_seconds=tuple(self.other_seconds) if len(self.other_seconds) == len(self.seconds) else None,
                steps=self.plan.steps * self.plan.epochs,
                samples=self.samples,
                epoch_steps=self.task.steps,
                epoch_samples=self.task.samples(self.task.steps),
            )
        rung = self.rung
        peer = any(rung is other for other in PEERS)
        return RungResult(rung.name, rung.title, rung.idea, peer, tuple(rung.deviations), **self.found)


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `work()` takes, and what it returns."""
    start = perf_counter()
    out = work()
    return perf_counter() - start, out


def log_bits(logs: list[StepLog]) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for log in logs for part in (log.loss, log.correct, log.size))


def state_bits(state: State) -> bytes:
    return state.params.tobytes() + state.velocity.tobytes()


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity: those are None, and the reason beside them says what happened."""
    return float(value) if value is not None and math.isfinite(value) else None


def line(text: str) -> str:
    """One printable line."""
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in text)[:400]
