"""Atomic writing: a file is replaced completely or not at all.

The content is written to a hidden temporary file in the same folder, and one rename replaces the old file by it.
The temporary file is locked meanwhile: one without a lock is left from a process that died.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

#: True if files need locks: Windows refuses to delete or replace an open file.
LOCKS = os.name == "posix"
if LOCKS:
    import fcntl


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Replace a file's content; text is written as UTF-8. After a crash the file has the old or the new content.

    Raises OSError: the error names the file. The old content is unchanged, and no temporary file is left.
    """
    with replacing(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Context with a file to write, which replaces `path` if the block ends without an error or Ctrl-C.

    Raises OSError: the error names the file. The old content is unchanged, and no temporary file is left.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    temporary = None
    try:
        descriptor, temporary = _create(target)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            if LOCKS:
                os.replace(temporary, target)  # still locked
        if not LOCKS:
            os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        if isinstance(error, OSError) and (error.filename is None or Path(error.filename).parent == target.parent):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


@contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Context with the path of a temporary file for another program; it replaces `path` if the block ends without an
    error.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def clean_leftovers(path: Path) -> int:
    """Delete the temporary files that dead writers of `path` left; return their number."""
    path = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{8}\.tmp")
    found: list[Path] = []
    with suppress(OSError):  # a folder that may not be listed
        found = [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]
    return sum(map(_delete_unless_locked, found))


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _create(path: Path) -> tuple[int, Path]:
    while True:
        temporary = _temporary(path)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if not LOCKS:
            return descriptor, temporary
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # another process cleaned up between creation and lock


def _delete_unless_locked(entry: Path) -> bool:
    """Delete a temporary file; False if a living process writes it, if it is gone, or if deletion is not permitted."""
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
    """Write a folder's entries to the disk: else a power failure may revert a rename."""
    if not LOCKS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
