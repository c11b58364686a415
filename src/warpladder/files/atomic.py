"""Files that appear whole or not at all.

The content goes to a hidden temporary file in the same folder, which then takes the place of the
old one in one rename. While it is written it is locked: a temporary file that nobody locks was left by a
process that died.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

#: Windows refuses to delete or replace an open file: that is lock enough there.
LOCKS = os.name == "posix"
if LOCKS:
    import fcntl


def write_atomically(path: Path, content: bytes) -> None:
    """Make `content` the content of `path`; after a crash at any moment the file holds the old or the new content.

    Raises
    ------
    OSError
        The old content is then as it was, and no temporary file is left.
    """
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece, that takes the place of `path` when the block ends; an error or Ctrl-C in it
    leaves the old file, or none.

    Raises
    ------
    OSError
        The disk is full, say. The old content is then as it was, and no temporary file is left.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    descriptor, temporary = _create(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            if LOCKS:
                os.replace(temporary, path)  # still locked
        if not LOCKS:
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def clean_leftovers(path: Path) -> int:
    """Delete the temporary files that dead writers of `path` left; returns how many there were."""
    path = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{8}\.tmp")
    found: list[Path] = []
    with suppress(OSError):  # a folder that may not be listed
        found = [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]
    return sum(map(_delete_unless_locked, found))


def _create(path: Path) -> tuple[int, Path]:
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if not LOCKS:
            return descriptor, temporary
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # somebody cleaned up between its creation and its lock


def _delete_unless_locked(entry: Path) -> bool:
    """Whether it was deleted: not if a live process writes it, or if it is gone or somebody else's."""
    try:
        if not LOCKS:
            entry.unlink()
            return True
        descriptor = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            entry.unlink()
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename last: without this a power failure may undo it."""
    if not LOCKS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
