"""Checkpoint files: saving, loading, and checks of the path before a run depends on it."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import CheckpointError
from ..files.atomic import write_atomically
from ..files.whole import ADDRESS, NotTheFile, is_address, read_whole
from .codec import decode, encode
from .content import Checkpoint


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically. Raises `CheckpointError` if the disk is full; an older file is then unchanged."""
    content = encode(checkpoint)
    try:
        write_atomically(Path(path), content)
    except OSError as error:
        older = "; the checkpoint of before is still there" if os.path.isfile(path) else ""
        raise CheckpointError(f"{os.fspath(path)!r} could not be written: {error.strerror or error}{older}") from None


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint. Raises `CheckpointError` if it is missing, unreadable or damaged."""
    return decode(read(path), os.fspath(path))


def read(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a file. Raises `CheckpointError` with the file's name if it cannot be read."""
    try:
        return read_whole(path)
    except FileNotFoundError:
        if is_address(path):
            raise CheckpointError(f"{os.fspath(path)!r} {ADDRESS}") from None
        raise CheckpointError(f"there is no checkpoint {os.fspath(path)!r}") from None
    except NotTheFile as error:
        raise CheckpointError(f"{os.fspath(path)!r} {error.strerror}") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint {os.fspath(path)!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:  # a name with a NUL in it; a file larger than memory
        raise CheckpointError(f"checkpoint {os.fspath(path)!r} cannot be read: {error or 'no memory for it'}") from None


def check_free(path: str | os.PathLike[str], resumed: str | os.PathLike[str] | None = None) -> None:
    """Raise `CheckpointError` if a new run's checkpoint would replace an existing file other than the resumed one."""
    if not os.path.lexists(path) or (
        resumed is not None and os.path.exists(resumed) and os.path.exists(path) and os.path.samefile(path, resumed)
    ):
        return
    raise CheckpointError(
        f"{os.fspath(path)!r} is there already: go on from it (resume), name another file, or insist (overwrite)"
    )


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `CheckpointError` if a checkpoint cannot be written to the path: it is a folder, its folder is missing, or
    the system forbids it.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise CheckpointError(f"checkpoint {os.fspath(path)!r} is a folder: name a file in it")
    if not target.parent.is_dir():
        raise CheckpointError(
            f"checkpoint {os.fspath(path)!r}: there is no folder {os.fspath(target.parent)!r}, make it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise CheckpointError(f"checkpoint {os.fspath(path)!r}: folder {os.fspath(target.parent)!r} cannot be written")
