"""A claim on a file that a long run writes again and again: two runs never share one."""

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
    """Claim a file for the block: False if another run that still lives has claimed it.

    The claim is a lock on a hidden file next to it, so a process that is killed leaves none. Where a file system has no
    locks, every claim is granted.
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
    """Descriptor of a locked file; None if another process holds the lock, -1 where there are no locks."""
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
