"""`TrainingLoop`: the epochs of a run, in calls of limited length, with checkpoints between two steps."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..checkpoint import Checkpoint, EpochLog, EpochSums, Score, best_epoch, is_over
from ..data.order import Order
from ..errors import CheckpointError, DivergedError, Stopped, StopTraining, UnsavedError, WarpladderError
from ..nets import CrossEntropyLoss
from ..nets.params import tensors, views
from ..ops.jit.compile_time import compiling
from ..trainers.base import State, StepLog, Trainer
from .diverged import Snapshot, explain_score, explain_state, explain_step
from .interrupt import Interrupt
from .resolve import ResolvedRun
from .restore import with_weights
from .run import Run
from .saving import Saver, Saving
from .scoring import part_score

if TYPE_CHECKING:
    from .progress import Show

T = TypeVar("T")

CALL_SECONDS = 1.0  # longest call of the trainer, so that Ctrl-C and the progress bar react
REPORTED = 0.5  # fewest seconds of compilation that are reported
SNAPSHOT_SECONDS = 1.0  # seconds between two copies of the state, for the trace of a loss that is not finite


def summed(sums: EpochSums, log: StepLog, seconds: float) -> EpochSums:
    """Sums of an epoch plus the steps of a log, which took `seconds`."""
    if not log.has_loss:
        return sums.plus_without_loss(log.size, seconds)
    return sums.plus(log.loss, log.correct, log.size, seconds)


class TrainingLoop:
    """Training run in progress. `epoch`, `step`, `sums` and `history` are its position, as in `Checkpoint`."""

    def __init__(
        self, run: ResolvedRun, trainer: Trainer, saving: Saving, interrupt: Interrupt, show: Show | None,
        each_epoch: Callable[[EpochLog], object] | None,
    ) -> None:  # fmt: skip
        self.trainer, self.data, self.start, self.config = trainer, run.data, run.start, run.config
        self.interrupt, self.show, self.each_epoch = interrupt, show, each_epoch
        self.saver = Saver(saving, self._checkpoint)
        self.steps = self.config.steps(len(run.data.train_x))
        start = run.start
        self.epoch, self.step, self.sums, self.history = start.epoch, start.step, start.sums, list(start.history)
        self.best = None if start.best is None else dict(start.best)
        self.is_stopped = False  # True if each_epoch has ended the run
        self.together: tuple[State, list[Order]] | None = None  # start and orders of the last call of several epochs
        self.scored: Checkpoint | None = None  # the run after its last epoch, while its best weights are scored
        self.reach = 1  # steps that fit into CALL_SECONDS, measured by the first call

    def to_the_end(self) -> Run:
        """Train all remaining epochs, and score the test samples."""
        while not self.is_stopped and not is_over(self.config, self.history):
            together = self._together()
            if together > 1:
                self._train_epochs(together)
            else:
                self._train_steps()
                self._close_epoch()
        end = self._end()
        try:
            self.saver.save_end(end)
        except CheckpointError as error:
            raise UnsavedError(str(error), Run(end)) from None
        if self.interrupt.signum is not None:
            raise self._stopped()
        return Run(end)

    def _end(self) -> Checkpoint:
        """Checkpoint of the finished run: with early stopping its best weights, and their test score."""
        end = self._checkpoint()
        if self.best is not None:
            self.scored = end
            end = replace(end, params=self.best, best=None, last=end.params)
            self.trainer.set_state(with_weights(end.net, self.trainer.state(), self.best))
        return replace(end, finished=True, test=self._score("test"))

    def _train_steps(self) -> None:
        """Train the remaining steps of the epoch."""
        order = self._order(self.epoch)
        snapshot = Snapshot(order, self.step, self._state())
        while self.step < self.steps:
            first, last = self.step, self._next_stop()
            with np.errstate(over="ignore", invalid="ignore"):
                log, seconds = self._timed(self.trainer.run, order, first, last)
            self._look(log, first, snapshot)
            self.sums = summed(self.sums, log, seconds)
            self.step = last
            self.reach = max(1, int(CALL_SECONDS * (last - first) / max(seconds, 1e-9)))
            if self.show is not None:
                self.show.steps(self.epoch + 1, self.step, self.sums)
            if self.step < self.steps:
                self.saver.save_step(self._place, self._all_steps)
            self._heed()
            if time.monotonic() - snapshot.taken > SNAPSHOT_SECONDS:
                snapshot = Snapshot(order, self.step, self._state())

    def _together(self) -> int:
        """Number of epochs in the next call of the trainer: several if they are short and nothing happens between
        them.
        """
        if self.step or self.data.valid_x is not None or self.saver.has_every_epoch:
            return 1
        reach = self.reach if self.config.log_every is None else min(self.reach, self.config.log_every)
        return min(self.config.epochs - self.epoch, reach // self.steps)

    def _train_epochs(self, count: int) -> None:
        """Train the next `count` epochs in one call; each is recorded with an equal part of the time."""
        orders = [self._order(self.epoch + i) for i in range(count)]
        before = self._state()
        with np.errstate(over="ignore", invalid="ignore"):
            logs, seconds = self._timed(self.trainer.run_epochs, orders)
            bad = next((i for i, log in enumerate(logs) if not np.isfinite(log.loss).all()), None)
            if bad is not None:
                self.trainer.set_state(before)
                self.trainer.run_epochs(orders[:bad])
                self._look(logs[bad], 0, Snapshot(orders[bad], 0, self.trainer.state()))
        self.reach = max(1, int(CALL_SECONDS * count * self.steps / max(seconds, 1e-9)))
        self.together = before, orders
        for log in logs:
            sums = summed(EpochSums(), log, seconds / count)
            self._note_epoch(sums, None)
        self._state()
        if self.show is not None:
            self.show.steps(self.epoch, self.steps, sums)
        self._end_epochs(count)

    def _timed(self, work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
        """Result of `work` and its seconds, without the seconds to compile code or to fetch it from a cache.

        Ctrl-C ends the processes of a DataLoader too, and PyTorch then raises an error: the run was stopped.
        """
        own, all_before, began = self.trainer.spans().get("compile", 0.0), compiling.seconds, time.perf_counter()
        try:
            result = work(*arguments)
        except Exception as error:
            if self.interrupt.signum is None or isinstance(error, WarpladderError):
                raise
            raise self._stopped() from error
        seconds, compiled = time.perf_counter() - began, compiling.seconds - all_before
        if compiled > REPORTED and self.show is not None:
            self.show.say(f"compiled in {compiled:.1f} s, which no epoch counts")
        return result, max(seconds - max(compiled, self.trainer.spans().get("compile", 0.0) - own), 1e-9)

    def _look(self, log: StepLog, first: int, snapshot: Snapshot) -> None:
        """Raise `DivergedError` if a loss is not finite; the log begins with step `first` of the snapshot's epoch."""
        good = np.isfinite(log.loss)
        if not good.all():
            step = int(np.argmin(good))
            raise DivergedError(
                explain_step(self.trainer, self.start.rung, self.data, snapshot, first + step, float(log.loss[step]))
            )

    def _order(self, epoch: int) -> Order:
        return Order(self.config.seed, epoch, len(self.data.train_x), self.config.shuffle)

    def _next_stop(self) -> int:
        """Step at which the next call ends: at a step of `log_every`, at a checkpoint, or at the limit of a call's
        seconds.
        """
        stops = [self.steps, self.step + self.reach]
        if self.config.log_every is not None:
            stops.append(self.step + self.config.log_every - self.step % self.config.log_every)
        every = self.saver.policy.every
        if every is not None:
            stops.append(self.step + every - self._all_steps % every)
        return min(stops)

    @property
    def _all_steps(self) -> int:
        """Number of steps since the run began, over all epochs."""
        return self.epoch * self.steps + self.step

    @property
    def _place(self) -> tuple[int, int]:
        return self.epoch, self.step

    def _close_epoch(self) -> None:
        state = self._state()
        self._note_epoch(self.sums, self._score("valid"))
        if self.config.early_stopping is not None and best_epoch(self.history) == self.epoch:
            self.best = self._tensors(state)
        self._end_epochs(1)

    def _end_epochs(self, count: int) -> None:
        """Write a due checkpoint, then call `each_epoch` for the last epochs: True or `StopTraining` ends the run.

        Any other error of `each_epoch` is raised after a checkpoint was written, with the run so far.
        """
        self.saver.save_epoch(self._place)
        for log in self.history[-count:] if self.each_epoch is not None else ():
            try:
                stops = self.each_epoch(log)  # type: ignore[misc]
            except StopTraining:
                stops = True
            except BaseException as error:
                self.saver.save(self._place)
                error.run = Run(self._checkpoint())  # type: ignore[attr-defined]
                error.add_note(f"each_epoch raised this after epoch {log.epoch}: {self._stored()}")
                raise
            if isinstance(stops, (bool, np.bool_)) and stops:
                self._stop_after(log.epoch)
                break
        self._heed()

    def _stop_after(self, epoch: int) -> None:
        """End the run after an epoch; if the last call trained later epochs too, restore the state of this one."""
        self.is_stopped = True
        if epoch < self.epoch:
            assert self.together is not None
            before, orders = self.together
            self.trainer.set_state(before)
            with np.errstate(over="ignore", invalid="ignore"):
                self.trainer.run_epochs(orders[: len(orders) - (self.epoch - epoch)])
            del self.history[epoch:]
            self.epoch = epoch

    def _note_epoch(self, sums: EpochSums, valid: Score | None) -> None:
        """Append an epoch to the history, and begin the next."""
        classes = isinstance(self.trainer.net.loss, CrossEntropyLoss)
        accuracy = sums.correct / sums.samples if sums.correct is not None and classes else None
        log = EpochLog(
            epoch=self.epoch + 1, train_loss=None if sums.loss is None else sums.loss / sums.samples,
            train_accuracy=accuracy, valid_loss=None if valid is None else valid.loss,
            valid_accuracy=None if valid is None else valid.accuracy, seconds=sums.seconds,
        )  # fmt: skip
        self.history.append(log)
        self.epoch, self.step, self.sums = self.epoch + 1, 0, EpochSums()

    def _score(self, part: str) -> Score | None:
        result = part_score(self.trainer, self.data, part, between=self._heed)
        if result is not None and not math.isfinite(result.loss):
            raise DivergedError(explain_score(self.trainer, self.start.rung, self.data, part, self.epoch, result.loss))
        return result

    def _state(self) -> State:
        """State of the trainer. Raises `DivergedError` if it is not finite."""
        state = self.trainer.state()
        buffers = () if state.buffers is None else (state.buffers,)
        if not all(np.isfinite(array).all() for array in (state.params, *buffers, *state.slots.values())):
            raise DivergedError(explain_state(self.trainer, self.data, state, self.epoch, self.step))
        return state

    def _checkpoint(self) -> Checkpoint:
        if self.scored is not None:
            return self.scored
        net, state = self.trainer.net, self._state()
        return replace(
            self.start, params=self._tensors(state),
            slots={name: views(net, state.slot(name)) for name in self.config.optimizer.slots}, epoch=self.epoch,
            step=self.step, sums=self.sums, history=tuple(self.history), tuned=self.trainer.tuned,
            best=self.best,
        )  # fmt: skip

    def _tensors(self, state: State) -> dict[str, np.ndarray]:
        """Parameters and buffers of a state, as arrays by name."""
        net = self.trainer.net
        return tensors(net, state.params, state.buffers_of(net))

    def _heed(self) -> None:
        """Write a checkpoint and raise `Stopped` if a signal was received."""
        if self.interrupt.signum is not None:
            self.saver.save(self._place)
            raise self._stopped()

    def _stopped(self) -> Stopped:
        where = (
            f"after step {self.step} of {self.steps} in epoch {self.epoch + 1}"
            if self.step
            else f"after epoch {self.epoch}"
        )
        return Stopped(
            f"training stopped {where} of {self.config.epochs}; {self._stored()}",
            128 + (self.interrupt.signum or signal.SIGINT),
        )

    def _stored(self) -> str:
        """Clause on how to resume the run, for a message."""
        path = self.saver.policy.path
        if path is None:
            return "nothing is saved, without a checkpoint file"
        return f"resume from {os.fspath(path)!r}" if os.path.exists(path) else "no checkpoint was written yet"
