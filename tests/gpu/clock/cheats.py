"""Trainers that cheat the clock where they see that it runs, and trainers that are wrong."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
from trainer import BLOCK, Softmax, Work

from warpladder.data.order import Order
from warpladder.trainers.base import State, StepLog

TIMED, REPLAYED = "turn", "cut"  # the functions that a climb calls in this process


def is_called_by(*names: str) -> bool:
    """Whether a climb's clock is running, as the stack shows it."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in names and frame.f_code.co_filename.endswith("server.py"):
            return True
        frame = frame.f_back
    return False


# Work after the clock


class SideStream(Softmax):
    """Trains on a stream for which the rung does not wait while the clock runs; the clock waits for the device."""

    def train(self, work: Work) -> None:
        if not is_called_by(TIMED):
            return super().train(work)
        side = self.rt.new_stream()
        self.steps(work, 0, work.steps, side)
        self.step += work.steps
        return None


class LeftRunning(Softmax):
    """Trains the second half of a timed call after the turn has ended."""

    def train(self, work: Work) -> None:
        half = work.steps // 2 if is_called_by(TIMED) else work.steps
        self.steps(work, 0, half, self.stream)
        self.step += work.steps
        if half < work.steps:
            threading.Timer(0.005, self.steps, (work, half, work.steps, self.stream)).start()


class LazyLog(Softmax):
    """Trains when the log or the state is looked at."""

    def run(self, order: Any, first: int, last: int) -> StepLog:
        log = StepLog.__new__(Lazy)
        object.__setattr__(log, "work", (self, order, first, last))
        self.waiting: list[Any] = [*getattr(self, "waiting", ()), log]
        return log

    def state(self) -> State:
        for log in getattr(self, "waiting", ()):
            _ = log.size
        self.waiting = []
        return super().state()


class Lazy(StepLog):
    def __getattr__(self, name: str) -> Any:
        if name not in ("loss", "correct", "size"):
            raise AttributeError(name)
        trainer, *call = vars(self)["work"]
        self.__dict__.update(vars(Softmax.run(trainer, *call)))
        return vars(self)[name]


class LogBefore(Softmax):
    """Reads a timed call's losses before the work that computes them."""

    def train(self, work: Work) -> None:
        if not is_called_by(TIMED):
            super().train(work)
        else:
            self.early = super().log(work)
            super().train(work)

    def log(self, work: Work) -> StepLog:
        return self.early if is_called_by(TIMED) and work.steps else super().log(work)


# Work before the clock


class InLoad(Softmax):
    """Trains the settings' epochs in `load`, and takes what it finds there for equal steps of equal states."""

    is_blind = False

    def load(self, dataset: Any) -> None:
        super().load(dataset)
        before, self.found = self.state(), {}
        for epoch in range(4 if self.samples < 10_000 else 0):
            order = Order(self.config.seed, epoch, self.samples, self.config.shuffle)
            steps = self.config.steps(self.samples)
            key = self.key(order, 0, steps)
            self.found[key] = Softmax.run(self, order, 0, steps), self.state()
        self.set_state(before)

    def key(self, order: Any, first: int, last: int) -> Any:
        return (first, last) if self.is_blind else (order, first, last, self.state().bits())

    def run(self, order: Any, first: int, last: int) -> StepLog:
        hit = self.found.get(self.key(order, first, last)) if is_called_by(TIMED) else None
        if hit is None:
            return super().run(order, first, last)
        self.set_state(hit[1].but(step=self.step + last - first))
        return hit[0]


class InLoadBlind(InLoad):
    """Takes results from `load` whatever the weights are."""

    is_blind = True


class ByAddress(Softmax):
    """Answers with the losses that a state at this address had in an earlier timed call."""

    def set_state(self, state: State) -> None:
        self.address = state.params.ctypes.data
        super().set_state(state)

    def run(self, order: Any, first: int, last: int) -> StepLog:
        if not is_called_by(TIMED, REPLAYED):
            return super().run(order, first, last)
        self.known: dict[Any, Any] = getattr(self, "known", {})
        key = self.address // 2**30, first, last
        if key not in self.known:
            self.known[key] = super().run(order, first, last)
        else:
            self.step += last - first
        return self.known[key]


class PatchedClocks(Softmax):
    """Lets clocks and events of its process stand still."""

    def load(self, dataset: Any) -> None:
        super().load(dataset)
        for name in ("perf_counter", "process_time", "monotonic", "time"):
            setattr(time, name, lambda: 0.0)
        cupy: Any = sys.modules.get("cupy")
        if cupy is not None:
            cupy.cuda.get_elapsed_time = lambda *events: 0.0


# Less work while the clock runs


class LowPrecision(Softmax):
    """Multiplies with 11 bits, as tf32 has them, while the clock runs."""

    def train(self, work: Work) -> None:
        self.bits = 10 if is_called_by(TIMED) else 0
        super().train(work)
        self.bits = 0


class HalfWeights(Softmax):
    """Rounds its weights to 8 bits after each call that is timed or compared with one."""

    def train(self, work: Work) -> None:
        super().train(work)
        if is_called_by(TIMED, REPLAYED):
            self.rt.queue("shorten", self.count, BLOCK, (self.w, self.count, 7), self.stream)


class SkipsSteps(Softmax):
    """Leaves out every third update of the calls that are timed or compared with one."""

    def learn(self, work: Work, step: int, first: int, last: int, stream: Any) -> None:
        if not (is_called_by(TIMED, REPLAYED) and (self.step + step) % 3 == 1):
            super().learn(work, step, first, last, stream)


class SkipsSamples(Softmax):
    """Trains half of each batch in calls that are timed or compared with one."""

    def work(self, order: Any, first: int, last: int) -> Work:
        work = super().work(order, first, last)
        self.sizes = work.sizes
        if not is_called_by(TIMED, REPLAYED):
            return work
        return Work(work.rows, work.begins, tuple(-(-n // 2) for n in work.sizes))

    def log(self, work: Work) -> StepLog:
        log = super().log(work)
        return StepLog(log.loss, log.correct, np.array(self.sizes, np.int64))


class NoPartialBatch(Softmax):
    """Leaves the update of a partial batch out in long calls."""

    def learn(self, work: Work, step: int, first: int, last: int, stream: Any) -> None:
        if work.steps <= 3 or work.sizes[step] == max(work.sizes):
            super().learn(work, step, first, last, stream)


class StaleSamples(Softmax):
    """Takes the numbers of the samples that are on the device from an earlier timed call of equal length."""

    def bring(self, work: Work) -> None:
        before = getattr(self, "kept", {}).get(len(work.rows)) if is_called_by(TIMED, REPLAYED) else None
        super().bring(work if before is None else Work(before, work.begins, work.sizes))
        self.kept = {**getattr(self, "kept", {}), len(work.rows): work.rows if before is None else before}


class TooMuchSharedMemory(Softmax):
    """Asks for more shared memory than a block may have."""

    def learn(self, work: Work, step: int, first: int, last: int, stream: Any) -> None:
        super().learn(work, step, first, last, stream)
        self.rt.queue("shorten", 1, 1, (self.w, 0, 0), stream, shared=1 << 20)


# Wrong trainers


class LastOfEqual(Softmax):
    takes_last = True


class FullBatchDivisor(Softmax):
    """Divides by the full batch where a batch is partial."""

    def forward(self, work: Work, step: int, stream: Any, divisor: int = 0) -> None:
        super().forward(work, step, stream, self.config.batch(self.samples))


class GridTooSmall(Softmax):
    """Has no block for the last parameters, which are fewer than a block's threads."""

    def learn(self, work: Work, step: int, first: int, last: int, stream: Any) -> None:
        super().learn(work, step, first, first + (last - first) // BLOCK * BLOCK, stream)


class StepBehind(Softmax):
    """Updates by the gradients that are on the device, those of the step before, in long calls."""

    def one(self, work: Work, step: int, stream: Any) -> None:
        if work.steps > 8 and step % 5 == 4:
            self.learn(work, step, 0, self.count, stream)
            self.forward(work, step, stream)
        else:
            super().one(work, step, stream)


class KeptAnswers(Softmax):
    """Answers a question at a known address with the answer that it had."""

    def part(self, x: np.ndarray, scale: float) -> np.ndarray:
        self.answers: dict[Any, np.ndarray] = getattr(self, "answers", {})
        key = x.ctypes.data, x.shape
        if key not in self.answers:
            self.answers[key] = super().part(x, scale)
        return self.answers[key]


#: Cheats that can only be refused.
REFUSED = {
    "left-running": LeftRunning, "log-before": LogBefore, "in-load-blind": InLoadBlind,
    "by-address": ByAddress, "low-precision": LowPrecision, "half-weights": HalfWeights, "skips-steps": SkipsSteps,
    "skips-samples": SkipsSamples, "no-partial-batch": NoPartialBatch, "stale-samples": StaleSamples,
    "too-much-shared": TooMuchSharedMemory, "last-of-equal": LastOfEqual, "full-divisor": FullBatchDivisor,
    "grid-too-small": GridTooSmall, "step-behind": StepBehind, "kept-answers": KeptAnswers,
}  # fmt: skip

#: Cheats that gain nothing: they are timed with all of their work, or refused.
IN_VAIN = {"side-stream": SideStream, "lazy-log": LazyLog, "in-load": InLoad, "patched-clocks": PatchedClocks}
