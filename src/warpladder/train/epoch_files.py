"""Checkpoints of single epochs: a file for each, in the folder of the run's own checkpoint."""

from __future__ import annotations

import os
from glob import escape
from pathlib import Path

from ..checkpoint import check_free, clean_leftovers
from ..errors import CheckpointError


def epoch_path(checkpoint: str | os.PathLike[str], epoch: int) -> Path:
    """Path of the checkpoint after an epoch, counted from 1: net-epoch-007.safetensors in the folder of
    net.safetensors.
    """
    path = Path(checkpoint)
    return path.with_name(f"{path.stem}-epoch-{epoch:03d}{path.suffix}")


def prepare_epochs(checkpoint: str | os.PathLike[str], first: int, last: int, overwrite: bool) -> None:
    """Delete unfinished files of epochs first to last, from 1. Raises `CheckpointError` if one must not be replaced."""
    for epoch in range(first, last + 1):
        path = epoch_path(checkpoint, epoch)
        if not overwrite:
            try:
                check_free(path)
            except CheckpointError:
                raise CheckpointError(
                    f"{os.fspath(path)!r} is there already, and epoch {epoch} is to be kept there: name "
                    "another checkpoint, or insist (overwrite)"
                ) from None
    here = Path(checkpoint)
    for left in here.parent.glob(f".{escape(here.stem)}-epoch-*.tmp"):
        clean_leftovers(left.with_name(left.name[1:].rsplit(".", 2)[0]))  # .NAME.RANDOM.tmp
