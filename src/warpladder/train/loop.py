"""The training loop: epochs, steps in calls of limited length, scores, and checkpoints between two steps."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..checkpoint import Checkpoint, EpochLog, Score, Sums, check_free, check_writable, clean_leftovers, save
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..errors import CheckpointError, ConfigError, DivergedError, Stopped, UnsavedError
from ..nets import CrossEntropyLoss, Net
from ..nets.params import views
from ..ops.jit.compile_time import compiling
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer
from .asked import asked_config, asked_data, asked_net, asked_rung
from .beginning import Weights, begin, to_state
from .diverged import Snapshot, explain_score, explain_state, explain_step
from .interrupt import Interrupt
from .kept_epochs import epoch_path, prepare_epochs
from .model import Model
from .run import Run
from .scoring import part_score

if TYPE_CHECKING:
    from rich.progress import Progress

    from .progress import Show

T = TypeVar("T")

CALL_SECONDS = 1.0  # a call of the trainer should take no longer, so that Ctrl-C and the progress bar stay alive
WORTH_SAYING = 0.5  # seconds of compiling
SNAPSHOT_SECONDS = 1.0  # between two copies of the state, from which a loss that is not finite is traced back


def train(
    net: Net | str,
    data: Dataset | str,
    config: TrainConfig | None = None,
    *,
    rung: str | Rung | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    checkpoint_seconds: float | None = None,
    keep_epochs: bool = False,
    overwrite: bool = False,
    resume: str | os.PathLike[str] | None = None,
    weights: Weights | Model | None = None,
    progress: Progress | bool | None = None,
    each_epoch: Callable[[EpochLog], None] | None = None,
) -> Run:
    """Train a net.

    Every epoch takes the samples in a new seeded order (`Order`). The last partial batch is trained with its own mean.
    Runs repeat bit for bit on the same rung, machine, libraries and number of threads, and a run that was stopped and
    resumed equals the one that never was, whatever the intervals of its log and checkpoints.

    Parameters
    ----------
    net : Net or str
        A name, "mlp", is that net for the samples and classes of the data.
    data : Dataset or str
        A name, "digits", is loaded. It stays as it is stored; nothing makes a float copy of it, unless it is to be
        standardised.
    config : TrainConfig, optional
        By default the net's recipe (`config.RECIPES`) or, when resuming, the checkpoint's.
    rung : str or Rung, optional
        By default "numpy" or, when resuming, the rung of the checkpoint. To resume on another rung name it: what
        follows is then that rung's arithmetic, and no longer equal bit for bit to the run that was never stopped.
    checkpoint : path, optional
        Keep a checkpoint in this file: at the end of every epoch, every `checkpoint_every` steps, and where training
        stops.
    checkpoint_every : int, optional
        Steps, counted over all epochs.
    checkpoint_seconds : float, optional
        Keep a checkpoint whenever so many seconds have passed, instead of at the end of every epoch. That of the run's
        end, or where it stops, is always written.
    keep_epochs : bool
        Keep the checkpoint of every epoch as well, in a file of its own beside `checkpoint`: of net.safetensors in
        net-epoch-001.safetensors and so on. They are checkpoints like any other.
    overwrite : bool
        Whether `checkpoint` may take the place of a file that is there, other than the one that is resumed, and whether
        files of single epochs may.
    resume : path, optional
        Go on from this checkpoint; nothing is written to it unless `checkpoint` names it too. Net, data and settings
        must be its own; only epochs, log_every and threads may differ, and epochs not where the schedule ends with the
        run, as `Cosine()` does. A finished run comes back at once. A run in fp64 goes on in fp64; one of float32 may go
        on in fp64 too.
    weights : path, mapping of arrays or Model, optional
        Begin a new run with these weights instead of drawing them by the seed: of a checkpoint, of a safetensors file
        of a PyTorch `state_dict`, or named arrays or tensors, such as `module.state_dict()`. Nothing else is taken from
        the file: settings are the new run's own, its optimizer begins afresh, and its schedule at the first step.
    progress : bool or rich.progress.Progress, optional
        True shows a bar on stderr; a `Progress` gets a task in it.
    each_epoch : callable, optional
        Called with the figures of each epoch as soon as it is trained, those of `Run.history`.

    Returns
    -------
    Run
        Weights, history and, where the test part has what scoring needs, its score.

    Raises
    ------
    ArgumentError
        An argument of another type, told with what is wanted.
    ConfigError, DataError, RungError
        Settings, data or rung do not fit.
    CheckpointError
        The checkpoint to resume is missing, damaged or another run's; weights do not fit the net; or a checkpoint could
        not be written, or would take the place of another file.
    UnsavedError
        The run came to its end, and only its checkpoint could not be written: `error.run` is the run.
    DivergedError
        A loss or a weight stopped being finite: the message names layer, epoch and step, and what to do. No such state
        is ever saved.
    Stopped
        Ctrl-C or SIGTERM: raised between two steps, after the checkpoint was written (a KeyboardInterrupt). A second
        one stops at once.
    """
    if checkpoint_every is not None and (
        isinstance(checkpoint_every, bool) or not isinstance(checkpoint_every, int) or checkpoint_every < 1
    ):
        raise ConfigError(f"checkpoint_every wants a whole number of at least 1, got {checkpoint_every!r}")
    if checkpoint_every is not None and checkpoint is None:
        raise ConfigError("checkpoint_every says when to write a checkpoint, but no checkpoint file is given")
    if keep_epochs and checkpoint is None:
        raise ConfigError(
            "keep_epochs keeps the checkpoint of every epoch beside checkpoint, but no checkpoint file is given"
        )
    if checkpoint is not None:
        check_writable(checkpoint)
        if not overwrite:
            check_free(checkpoint, resume)
        clean_leftovers(Path(checkpoint))
    data = asked_data(data)
    net = asked_net(net, data)
    if config is not None:
        asked_config(config, net)
    if rung is not None:
        rung = asked_rung(rung)
    if isinstance(weights, Model):
        weights = weights.state_dict()
    start, chosen = begin(net, data, config, rung, resume, weights)
    if start.finished:
        if checkpoint is not None:
            save(checkpoint, start)
        return Run(start)
    if keep_epochs and checkpoint is not None:
        prepare_epochs(checkpoint, start.epoch + 1, start.config.epochs, overwrite)
    data = data.standardized()
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        show: Show | None = None
        if progress is not None and progress is not False:
            from .progress import bar

            steps = start.config.steps(len(data.train_x))
            show = stack.enter_context(
                bar(progress, interrupt, start.config.epochs, steps, accuracy=isinstance(net.loss, CrossEntropyLoss))
            )
        stack.enter_context(compiling.told(None if show is None else show.say))
        trainer = stack.enter_context(chosen.build(net, start.config, to_state(start)))
        trainer.tuned, trainer.say = start.tuned, None if show is None else show.say
        trainer.load(data)
        return _Loop(
            trainer,
            data,
            start,
            interrupt,
            show,
            checkpoint,
            checkpoint_every,
            checkpoint_seconds,
            keep_epochs,
            each_epoch,
        ).to_the_end()


def summed(sums: Sums, log: StepLog, seconds: float) -> Sums:
    """An epoch's sums with the steps of a log, which took so many seconds."""
    if not log.has_loss:
        return sums.plus_without_loss(log.size, seconds)
    return sums.plus(log.loss, log.correct, log.size, seconds)


class _Loop:
    """A run in progress: `epoch`, `step`, `sums` and `history` say where it stands, as they do in `Checkpoint`."""

    def __init__(
        self,
        trainer: Trainer,
        data: Dataset,
        start: Checkpoint,
        interrupt: Interrupt,
        show: Show | None,
        path: str | os.PathLike[str] | None,
        every: int | None,
        seconds: float | None,
        keep_epochs: bool,
        told: Callable[[EpochLog], None] | None,
    ) -> None:
        self.trainer, self.data, self.start, self.interrupt, self.show = trainer, data, start, interrupt, show
        self.path, self.every, self.seconds, self.keep_epochs, self.told = path, every, seconds, keep_epochs, told
        self.config = start.config
        self.steps = self.config.steps(len(data.train_x))
        self.epoch, self.step, self.sums, self.history = start.epoch, start.step, start.sums, list(start.history)
        self.reach = 1  # steps that fit into CALL_SECONDS; the first call finds out
        self.saved: tuple[int, int] | None = None  # the place of the last checkpoint written
        self.written = time.monotonic()  # when it was, or when the run began

    def to_the_end(self) -> Run:
        while self.epoch < self.config.epochs:
            together = self._together()
            if together > 1:
                self._train_epochs(together)
            else:
                self._train_steps()
                self._close_epoch()
        end = replace(self._checkpoint(), finished=True, test=self._score("test"))
        if self.path is not None:
            try:
                save(self.path, end)
            except CheckpointError as error:
                raise UnsavedError(str(error), Run(end)) from None
        if self.interrupt.signum is not None:
            raise self._stopped()
        return Run(end)

    def _train_steps(self) -> None:
        """What is left of the epoch's steps."""
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
            asked = self.every is not None and self._steps_in_all() % self.every == 0
            if self.step < self.steps and (asked or self._overdue()):
                self._save()
            self._heed()
            if time.monotonic() - snapshot.taken > SNAPSHOT_SECONDS:
                snapshot = Snapshot(order, self.step, self._state())

    def _together(self) -> int:
        """Epochs that the next call takes: more than one where nothing is to be done between them, and their steps are
        few.
        """
        if (
            self.step
            or self.data.valid_x is not None
            or self.keep_epochs
            or (self.path is not None and self.seconds is None)
        ):
            return 1
        reach = self.reach if self.config.log_every is None else min(self.reach, self.config.log_every)
        return min(self.config.epochs - self.epoch, reach // self.steps)

    def _train_epochs(self, count: int) -> None:
        """The next epochs in one call; each has an equal part of its time."""
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
        for log in logs:
            sums = summed(Sums(), log, seconds / count)
            self._note_epoch(sums, None)
        self._state()
        if self.show is not None:
            self.show.steps(self.epoch, self.steps, sums)
        self._save_epoch()
        self._heed()

    def _timed(self, work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
        """What the work gives, and its seconds without those in which code was compiled, or fetched from a cache: they
        are no part of an epoch.
        """
        own, all_before, began = self.trainer.spans().get("compile", 0.0), compiling.seconds, time.perf_counter()
        result = work(*arguments)
        seconds, compiled = time.perf_counter() - began, compiling.seconds - all_before
        if compiled > WORTH_SAYING and self.show is not None:
            self.show.say(f"compiled in {compiled:.1f} s, which no epoch counts")
        return result, max(seconds - max(compiled, self.trainer.spans().get("compile", 0.0) - own), 1e-9)

    def _look(self, log: StepLog, first: int, snapshot: Snapshot) -> None:
        """Stop where a loss is not finite; the log begins with step `first` of the snapshot's epoch."""
        good = np.isfinite(log.loss)
        if not good.all():
            step = int(np.argmin(good))
            raise DivergedError(
                explain_step(self.trainer, self.start.rung, self.data, snapshot, first + step, float(log.loss[step]))
            )

    def _order(self, epoch: int) -> Order:
        return Order(self.config.seed, epoch, len(self.data.train_x), self.config.shuffle)

    def _next_stop(self) -> int:
        """The step before which the next call ends: a look at the loss, a checkpoint, or as far as a call should reach."""
        stops = [self.steps, self.step + self.reach]
        if self.config.log_every is not None:
            stops.append(self.step + self.config.log_every - self.step % self.config.log_every)
        if self.every is not None:
            stops.append(self.step + self.every - self._steps_in_all() % self.every)
        return min(stops)

    def _steps_in_all(self) -> int:
        return self.epoch * self.steps + self.step

    def _close_epoch(self) -> None:
        self._state()
        self._note_epoch(self.sums, self._score("valid"))
        self._save_epoch()
        self._heed()

    def _note_epoch(self, sums: Sums, valid: Score | None) -> None:
        """Put an epoch into the history, and go on to the next."""
        classes = isinstance(self.trainer.net.loss, CrossEntropyLoss)
        accuracy = sums.correct / sums.samples if sums.correct is not None and classes else None
        log = EpochLog(
            epoch=self.epoch + 1,
            train_loss=None if sums.loss is None else sums.loss / sums.samples,
            train_accuracy=accuracy,
            valid_loss=None if valid is None else valid.loss,
            valid_accuracy=None if valid is None else valid.accuracy,
            seconds=sums.seconds,
        )
        self.history.append(log)
        self.epoch, self.step, self.sums = self.epoch + 1, 0, Sums()
        if self.told is not None:
            self.told(log)

    def _score(self, part: str) -> Score | None:
        result = part_score(self.trainer, self.data, part, between=self._heed)
        if result is not None and not math.isfinite(result.loss):
            raise DivergedError(explain_score(self.trainer, self.start.rung, self.data, part, self.epoch, result.loss))
        return result

    def _state(self) -> State:
        """The trainer's state; a state that is not finite goes no further."""
        state = self.trainer.state()
        if not all(np.isfinite(array).all() for array in (state.params, *state.slots.values())):
            raise DivergedError(explain_state(self.trainer, self.data, state, self.epoch, self.step))
        return state

    def _checkpoint(self) -> Checkpoint:
        net, state = self.trainer.net, self._state()
        return replace(
            self.start,
            params=views(net, state.params),
            slots={name: views(net, state.slot(name)) for name in self.config.optimizer.slots},
            epoch=self.epoch,
            step=self.step,
            sums=self.sums,
            history=tuple(self.history),
            tuned=self.trainer.tuned,
        )

    def _save(self) -> None:
        if self.path is not None and self.saved != (self.epoch, self.step):
            save(self.path, self._checkpoint())
            self.saved, self.written = (self.epoch, self.step), time.monotonic()

    def _save_epoch(self) -> None:
        """The checkpoints at the end of an epoch: the epoch's own, where those are kept, and the run's, unless time
        decides and has not come.
        """
        if self.keep_epochs and self.path is not None:
            save(epoch_path(self.path, self.epoch), self._checkpoint())
        if self.seconds is None or self._overdue():
            self._save()

    def _overdue(self) -> bool:
        """Whether time decides when checkpoints are written, and has come."""
        return self.seconds is not None and time.monotonic() - self.written >= self.seconds

    def _heed(self) -> None:
        """Stop here if a signal asked for it."""
        if self.interrupt.signum is not None:
            self._save()
            raise self._stopped()

    def _stopped(self) -> Stopped:
        where = (
            f"after step {self.step} of {self.steps} in epoch {self.epoch + 1}"
            if self.step
            else f"after epoch {self.epoch}"
        )
        kept = (
            "nothing is saved, for no checkpoint file was given"
            if self.path is None
            else f"resume from {os.fspath(self.path)!r}"
        )
        return Stopped(
            f"training stopped {where} of {self.config.epochs}; {kept}", 128 + (self.interrupt.signum or signal.SIGINT)
        )
