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
from ..ladder import is_peer
from ..machine.facts import busy_seconds
from ..nets import CrossEntropyLoss
from ..proof import verify
from ..results import Checked, History, Machine, RungResult, Timing
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer
from .proof_cache import Kept
from .source_text import texts
from .task import PROBE, TRAINING, Plan, Task, plan, proven_with, train_in_calls


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
    ends: list[State] = field(default_factory=list)
    #: of each epoch that was trained whole: mean loss and share of right samples, None where they were not computed,
    #: and seconds
    epochs: dict[int, tuple[float | None, float | None, float]] = field(default_factory=dict)
    stage: int = 0  # parts of the climb that it has behind it
    asked: bool = False
    passed: Checked | None = None  # by a process of its own
    repeated: bool = False
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)  # lines of what it computes with, by name

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

    def ask(self) -> None:
        """Ask the rung, once, whether it can train this."""
        if self.asked:
            return
        self.asked = True
        with self.guarded("check"):
            reason = self.rung.unsupported(self.task.net, self.task.config)
            if reason is not None:
                self.give_up("unsupported", reason)

    def check(self, kept: Kept | None) -> None:
        """Ask the float64 reference whether the rung trains this right, or take the proof that it was given in an
        earlier climb.
        """
        with self.guarded("check"):
            checked = (kept.find(self.rung) if kept else None) or self.passed
            if checked is None:
                self.close()  # what was begun beside its proof takes memory that the proof may need
                config, cut = proven_with(self.rung, self.task)
                verdict = verify(
                    self.rung.build,
                    self.task.net,
                    config,
                    dataset=self.task.data,
                    bitwise=self.exact,
                    precision=self.rung.precision,
                    sums=self.rung.sums,
                    transforms=self.rung.transforms,
                    shared=self.task.cases,
                )
                checked = Checked(
                    verdict.passed,
                    finite(verdict.error),
                    finite(verdict.bound),
                    line(verdict.reason + cut),
                    verdict.seconds,
                )
                if not verdict.passed:
                    self.give_up("failed" if verdict.judged else "unjudged", verdict.reason)
            self.found["check"] = checked

    def begin(self) -> None:
        """Build, load and take the first step, beside processes that prove other rungs: one that cannot now, for want
        of memory say, does so later.
        """
        try:
            self._begin()
        except Exception:
            self.close()

    def _begin(self) -> None:
        self.found["build_seconds"], self.trainer = clocked(
            lambda: self.rung.build(self.task.net, self.task.config, self.task.start())
        )
        trainer = self.trainer
        self.found["load_seconds"], _ = clocked(lambda: trainer.load(self.task.data))
        self.found["first_seconds"], _ = clocked(lambda: self._run(trainer, 0, 0, 1))

    def prepare(self, kept: Kept | None = None) -> None:
        """Build, load, warm up, and plan the repetitions. Ends at the initial state."""
        with self.guarded("first steps"):
            if self.trainer is None:
                self._begin()
            trainer = self.trainer
            assert trainer is not None
            flops = trainer.flops()
            if isinstance(flops, bool) or not isinstance(flops, int) or flops < 1:
                raise Refused(
                    f"flops() wants a whole number of at least 1, the FLOPs of one sample's training, got {flops!r:.40}"
                )
            self.found["flops"] = flops
            self.peak = trainer.peak()
            self.found["floor_seconds"] = None
            if not is_peer(self.rung):
                self.sources = texts(trainer, self.rung.path)
            per_step = self._probe(trainer)
            self.per_epoch = per_step * self.task.steps
            self.plan = plan(self.task, per_step)
            trainer.set_state(self.task.start())
            if kept and not self.found["check"].kept:
                kept.keep(self.rung, self.found["check"], on_gpu=self.peak is not None)

    def _probe(self, trainer: Trainer) -> float:
        """Seconds per step; of steps with and without losses the mean, each as often as training has it."""
        every = self.task.config.loss_every
        without = self._probe_epoch(trainer, 0) if every > 1 else 0.0
        return ((every - 1) * without + self._probe_epoch(trainer, every - 1)) / every

    def _probe_epoch(self, trainer: Trainer, epoch: int) -> float:
        """Seconds per step of an epoch, the least of ever longer runs until there is time enough or no step more; also
        warms the last step's code.
        """
        count, total, best = 0, 0.0, math.inf
        while total < 2 * PROBE and count < self.task.steps:
            count = min(self.task.steps, 4 * count or 1)
            seconds, _ = clocked(partial(self._run, trainer, epoch, 0, count))
            total += seconds
            best = min(best, seconds / count)
        if count < self.task.steps:
            self._run(trainer, epoch, self.task.steps - 1, self.task.steps)
        return best

    def repeat(self, number: int) -> None:
        """One timed repetition. The clock stops when the weights have been copied out, so that no work can be put off
        until after it.
        """
        trainer = self.trainer
        assert trainer is not None
        with self.guarded("timed steps"):
            busy, cpu, start = busy_seconds(), process_time(), perf_counter()
            logs = self.repetition(trainer, number)
            state = trainer.state()
            seconds, cpu, after = perf_counter() - start, process_time() - cpu, busy_seconds()
            self.samples = self._counted(number, logs, state)
            self.seconds.append(seconds)
            self.cpu_seconds.append(cpu)
            if busy is not None and after is not None:
                self.other_seconds.append(max(0.0, after - busy - cpu))
            self.note(number * self.plan.epochs, logs, seconds)
            self.logs.append(log_bits(logs))
            self.ends.append(state.copied())

    def repetition(self, trainer: Trainer, number: int) -> list[StepLog]:
        """The steps that a repetition times, by a trainer at the state that it begins with."""
        first = number * self.plan.epochs
        orders = [self.task.order(epoch) for epoch in range(first, first + self.plan.epochs)]
        return train_in_calls(trainer, self.task.config, orders, self.plan.steps)

    def _run(self, trainer: Trainer, epoch: int, first: int, last: int) -> StepLog:
        return trainer.run(self.task.order(epoch), first, last)

    def note(self, first: int, logs: list[StepLog], seconds: float) -> None:
        """Take loss, right samples and seconds of whole epochs, `first` and those behind it, that were trained in so
        many seconds together.
        """
        for epoch, log in enumerate(logs, first):
            if epoch not in self.epochs and len(log.size) == self.task.steps:
                samples = int(log.size.sum())
                known = (
                    (float(log.loss @ log.size) / samples, int(log.correct.sum()) / samples)
                    if log.has_loss
                    else (None, None)
                )
                self.epochs[epoch] = *known, seconds / len(logs)

    def _history(self) -> History | None:
        """The epochs from the first on without a gap."""
        whole = [self.epochs[epoch] for epoch in range(len(self.epochs)) if epoch in self.epochs]
        if not whole or not all(math.isfinite(value) for epoch in whole for value in epoch if value is not None):
            return None
        loss, accuracy, seconds = zip(*whole, strict=True)
        return History(loss, accuracy if isinstance(self.task.net.loss, CrossEntropyLoss) else None, seconds)

    def _counted(self, number: int, logs: list[StepLog], state: State) -> int:
        """Samples trained in a repetition, by the logs of its steps; refuses logs that do not show the work that was
        asked for.
        """
        expected = np.minimum(
            self.task.config.batch(self.task.n),
            self.task.n - np.arange(self.plan.steps) * self.task.config.batch(self.task.n),
        )
        for epoch, log in enumerate(logs, number * self.plan.epochs):
            if log.has_loss is not self.task.config.has_loss(epoch):
                raise Refused(
                    f"the timed steps of epoch {epoch + 1} have {'losses' if log.has_loss else 'no losses'}, unlike what was asked for"
                )
            if self.exact and not np.array_equal(log.size, expected):
                raise Refused("the timed steps did not train the batches that were asked for")
            if not np.isfinite(log.loss).all():
                raise Refused(
                    f"the loss is not finite at step {int(np.flatnonzero(~np.isfinite(log.loss))[0])}: try a smaller learning rate"
                )
        if self.task.config.loss_every > 1 and not np.isfinite(state.params).all():
            raise Refused("the weights are not finite: try a smaller learning rate")
        return int(sum(log.size.sum() for log in logs))

    def doubt(self, machine: Machine) -> str | None:
        """Set the floor: the FLOPs that the rung itself declares, at the peak of its unit in its precision. Says why a
        time below it is not believed.
        """
        peak = self.peak or machine.peak(self.rung.precision)
        floor = self.found["flops"] / peak
        self.found["floor_seconds"] = floor * self.task.samples(self.task.steps)
        fastest = min(self.seconds) / self.samples
        if fastest >= floor:
            return None
        return (
            f"{fastest * 1e6:.3g} us a sample is below the floor of {floor * 1e6:.3g} us: "
            f"{self.found['flops']:,} FLOPs at the {peak / 1e9:.0f} GFLOP/s that {'its GPU' if self.peak else 'this machine'} can do in {self.rung.precision}"
        )

    def believe(self, machine: Machine) -> None:
        """Refuse a time below the floor."""
        with self.guarded("floor"):
            if (reason := self.doubt(machine)) is not None:
                raise Refused(reason)

    @property
    def test_pass(self) -> float:
        """Estimated seconds of a pass over the test samples: of a step's work a third is its forward pass."""
        return len(self.task.data.test_x) * self.per_epoch / (3 * self.task.n)

    def weighed(self, found: int | None, reason: str) -> None:
        """Note the peak memory of a process of its own; a rung that cannot be weighed is timed all the same."""
        self.found["peak_rss_bytes"] = found
        self.remark(f"peak memory not measured: {reason}" if found is None else "")

    def left(self, proof: float, settle: float) -> float:
        """Estimated seconds that it still takes, a proof taking so long, a pause before each repetition so long."""
        if self.trainer is None and not self.seconds:
            return proof + self.task.repeats * (settle + 0.5)
        repetition = self.per_epoch * self.plan.epochs * self.plan.steps / self.task.steps
        training = self.training() if self.task.scored and self.affordable else 0.0
        tests = 2 * self.test_pass if self.task.scored and "spans" not in self.found else 0.0
        replays = 0.0 if self.repeated else repetition + training
        return (self.task.repeats - len(self.seconds)) * (settle + repetition) + tests + replays

    def trained(self) -> tuple[int, State]:
        """How far towards the epochs of the test accuracy the timed run has come, and its state there: an end of whole
        epochs, or the start.
        """
        ends = enumerate(self.ends, 1) if self.plan.steps == self.task.steps else ()
        return max(
            ((number * self.plan.epochs, end) for number, end in ends if number * self.plan.epochs <= self.task.epochs),
            key=lambda reached: reached[0],
            default=(0, self.task.start()),
        )

    def training(self) -> float:
        """Estimated seconds of training that the test accuracy still takes."""
        left = self.task.epochs - self.trained()[0]
        return left * self.per_epoch if left else 0.0

    @property
    def affordable(self) -> bool:
        """Whether the training that the test accuracy still takes is short enough."""
        return self.training() <= TRAINING * self.task.budget

    def remark(self, text: str) -> None:
        """Add to the reason of a rung that goes on."""
        self.found["reason"] = "; ".join(filter(None, (self.found.get("reason", ""), line(text))))

    def close(self) -> None:
        trainer, self.trainer = self.trainer, None
        if trainer is not None:
            trainer.close()

    def result(self, machine: Machine, stopped: str = "") -> RungResult:
        """What has been found, as it is stored; `stopped` says why there may be no more of it."""
        found = dict(self.found)
        if self.alive and not self.seconds:
            found |= {
                "status": "missing",
                "reason": f"{'proven, but not timed' if 'check' in found else 'not reached'}: {line(stopped)}",
            }
        elif self.alive and (reason := self.doubt(machine)) is not None:
            found |= {"status": "refused", "reason": reason}
        elif self.alive:
            found |= {"status": "timed", "timing": self.timing(), "floor_seconds": self.found["floor_seconds"]}
            missing = (
                [f"timed {len(self.seconds)} of {self.task.repeats} times"]
                if len(self.seconds) < self.task.repeats
                else []
            )
            missing += ["its bits were not compared with an untimed run's"] if not self.repeated else []
            found["reason"] = "; ".join(filter(None, (found.get("reason", ""), *missing)))
        rung = self.rung
        return RungResult(
            rung.name,
            rung.title,
            rung.idea,
            is_peer(rung),
            tuple(rung.deviations),
            precision=rung.precision,
            sums=rung.sums,
            unit=rung.unit,
            history=self._history(),
            sources=tuple(self.sources),
            **found,
        )

    def timing(self) -> Timing:
        return Timing(
            seconds=tuple(self.seconds),
            cpu_seconds=tuple(self.cpu_seconds),
            other_seconds=tuple(self.other_seconds) if len(self.other_seconds) == len(self.seconds) else None,
            steps=self.plan.steps * self.plan.epochs,
            samples=self.samples,
            epoch_steps=self.task.steps,
            epoch_samples=self.task.samples(self.task.steps),
            of_epochs=self.plan.epochs,
        )


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `work()` takes, and what it returns."""
    start = perf_counter()
    out = work()
    return perf_counter() - start, out


def log_bits(logs: list[StepLog]) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for log in logs for part in (log.loss, log.correct, log.size))


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity: those are None, and the reason beside them says what happened."""
    return float(value) if value is not None and math.isfinite(value) else None


def line(text: str) -> str:
    """One printable line."""
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in text)[:400]
