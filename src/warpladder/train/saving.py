"""`Saving`: policy of a run's checkpoints; `Saver`: their writer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..checkpoint import Checkpoint, check_free, check_writable, clean_leftovers, save
from ..errors import CheckpointError, ConfigError
from ..files.claim import claimed
from .epoch_files import epoch_path, prepare_epochs


@dataclass(frozen=True)
class Saving:
    """Policy of a run's checkpoints.

    path : file of the run's checkpoint, or None for no checkpoint.
    every : steps between two checkpoints within an epoch, counted over all epochs.
    seconds : seconds between two checkpoints; it replaces the checkpoint at the end of each epoch.
    keep_epochs : True to write each epoch's checkpoint to a separate file too. overwrite : True to replace files.
    resumed : checkpoint of the continued run, which may be replaced; None for a new run.
    """

    path: str | os.PathLike[str] | None = None
    every: int | None = None
    seconds: float | None = None
    keep_epochs: bool = False
    overwrite: bool = False
    resumed: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Raise `ConfigError` or `CheckpointError` if this policy is impossible. Deletes the partial files of a
        killed process.
        """
        every = self.every
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ConfigError(f"checkpoint_every wants a whole number of at least 1, got {every!r}")
        if self.path is None:
            if every is not None:
                raise ConfigError("checkpoint_every needs a checkpoint file, and none is given: add checkpoint=...")
            if self.keep_epochs:
                raise ConfigError("keep_epochs needs a checkpoint file, and none is given: add checkpoint=...")
            return
        check_writable(self.path)
        if not self.overwrite:
            check_free(self.path, self.resumed)
        clean_leftovers(Path(self.path))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Context that reserves the checkpoint file for this run.

        Raises CheckpointError: another run has reserved the file, or has written it since `check`.
        """
        if self.path is None:
            yield
            return
        with claimed(self.path) as is_ours:
            if not is_ours:
                raise CheckpointError(
                    f"{os.fspath(self.path)!r} is the checkpoint of a run that is under way: name another file"
                )
            if not self.overwrite:
                check_free(self.path, self.resumed)
            yield

    def prepare_epochs(self, first: int, last: int) -> None:
        """Check and clean up the paths of the files of epochs first to last, counted from 1."""
        if self.keep_epochs and self.path is not None:
            prepare_epochs(self.path, first, last, self.overwrite)


class Saver:
    """Writer of a run's checkpoints; `checkpoint` is a function that returns the present one."""

    def __init__(self, policy: Saving, checkpoint: Callable[[], Checkpoint]) -> None:
        self.policy, self.checkpoint = policy, checkpoint
        self.saved: tuple[int, int] | None = None  # epoch and step of the last checkpoint
        self.written = time.monotonic()  # time of the last checkpoint, or of the run's start

    @property
    def has_every_epoch(self) -> bool:
        """True if a checkpoint is written at the end of every epoch."""
        return self.policy.keep_epochs or (self.policy.path is not None and self.policy.seconds is None)

    def save(self, place: tuple[int, int]) -> None:
        """Write a checkpoint, unless the one of this epoch and step was written already."""
        if self.policy.path is not None and self.saved != place:
            save(self.policy.path, self.checkpoint())
            self.saved, self.written = place, time.monotonic()

    def save_step(self, place: tuple[int, int], steps: int) -> None:
        """Write a checkpoint within an epoch, after `steps` steps of the run, if it is due."""
        if (self.policy.every is not None and steps % self.policy.every == 0) or self._is_overdue():
            self.save(place)

    def save_epoch(self, place: tuple[int, int]) -> None:
        """Write the due checkpoints at the end of an epoch."""
        if self.policy.keep_epochs and self.policy.path is not None:
            save(epoch_path(self.policy.path, place[0]), self.checkpoint())
        if self.policy.seconds is None or self._is_overdue():
            self.save(place)

    def save_end(self, end: Checkpoint) -> None:
        """Write the checkpoint of a finished run."""
        if self.policy.path is not None:
            save(self.policy.path, end)

    def _is_overdue(self) -> bool:
        """True if checkpoints are written at intervals of seconds, and the interval is over."""
        return self.policy.seconds is not None and time.monotonic() - self.written >= self.policy.seconds
