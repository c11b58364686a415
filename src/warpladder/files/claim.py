"""Claim on a file that a long run writes repeatedly: two runs never write the same file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .atomic import LOCKS

if LOCKS:
    import fcntl


@contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Context that claims a file: True if it succeeds, False if another living run has claimed it.

    The claim is a lock on a hidden file in its folder, so it ends with the process. On a file system without locks
    every claim succeeds.
    """
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    descriptor = _locked(lock)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None and descriptor >= 0:
            with suppress(OSError):
                lock.unlink()
            os.close(descriptor)


def _locked(lock: Path) -> int | None:
    """Descriptor of a locked file; None if another process has the lock, -1 on a file system without locks."""
    while LOCKS:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            break
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            break
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # its owner deleted it between opening and locking
    return -1
