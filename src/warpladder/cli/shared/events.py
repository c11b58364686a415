"""Writer of `train --log-dir`: each epoch's figures as TensorBoard's event files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import WarpladderError

if TYPE_CHECKING:
    from ...checkpoint import EpochLog

#: TensorBoard's names of an epoch's figures; names with the same prefix share a panel.
TAGS = {
    "loss/train": "train_loss",
    "accuracy/train": "train_accuracy",
    "loss/valid": "valid_loss",
    "accuracy/valid": "valid_accuracy",
    "seconds/epoch": "seconds",
}


@contextmanager
def event_log(folder: Path | None) -> Iterator[Callable[[EpochLog], None] | None]:
    """Function that writes each epoch immediately to a new event file in this folder, so that TensorBoard shows a
    running training; None without a folder.

    Raises
    ------
    WarpladderError
        TensorBoard's package is missing, or the folder cannot be created or written.
    """
    if folder is None:
        yield None
        return
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise WarpladderError(
            f"--log-dir wants TensorBoard's package, which cannot be imported ({error}): pip install "
            "'warpladder[tensorboard]'"
        ) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writer = EventFileWriter(str(folder))
    except OSError as error:
        raise WarpladderError(
            f"{folder}: event files cannot be written there ({error.strerror or error}): name another --log-dir"
        ) from None

    def note(log: EpochLog) -> None:
        figures = [(tag, getattr(log, name)) for tag, name in TAGS.items()]
        found = [Summary.Value(tag=tag, simple_value=figure) for tag, figure in figures if figure is not None]
        writer.add_event(Event(wall_time=time.time(), step=log.epoch, summary=Summary(value=found)))
        writer.flush()

    try:
        yield note
    finally:
        writer.close()
