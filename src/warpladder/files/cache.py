"""Disk cache of the package: entries by key, each cache in its own folder below the user's cache folder.

An entry is one file: a mark that names the format, a checksum, the content. A damaged, truncated or older entry is
treated as absent. Entries are written atomically (atomic.py), so any number of processes may read, write and prune
concurrently. A folder may be deleted at any time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ..errors.warning import warn
from .atomic import write_atomically

HOUR = 3600
DAY = 24 * HOUR


class CacheLimits(NamedTuple):
    """Limits of a cache; the least recently used entries are deleted first. None is no limit.

    entries : most entries. size : most bytes. age : most seconds since the last use.
    young : entries used within this many seconds are never deleted.
    """

    entries: int | None = None
    size: int | None = None
    age: float | None = None
    young: float = 0.0


class Cache:
    """Cache of one kind of entries on the disk.

    name : folder below the user's cache folder, for instance "cubin".
    contents, consequence : words of warnings: "compiled kernels", "every start compiles them again".
    mark : bytes; first line of an entry, with the newline. It names the format and its version.
    suffix : suffix of the entries' file names, for instance ".cubin".
    """

    def __init__(
        self,
        name: str,
        contents: str,
        consequence: str,
        mark: bytes = b"",
        suffix: str = "",
        limits: CacheLimits = CacheLimits(),  # noqa: B008
    ) -> None:
        self.name, self.contents, self.consequence = name, contents, consequence
        self.mark, self.suffix, self.limits = mark, suffix, limits

    def place(self) -> Path:
        """Path of the entries' folder, which need not exist."""
        import platformdirs

        return Path(platformdirs.user_cache_dir("warpladder")) / self.name

    def folder(self) -> Path | None:
        """Path of the entries' folder, created if missing; None, after one warning, if it is not writable."""
        place = self.place()
        reason = why_not_writable(place)
        if reason is not None:
            self.warn(place, reason)
        return place if reason is None else None

    def path(self, key: str) -> Path:
        """Path of an entry's file."""
        return self.place() / f"{key}{self.suffix}"

    def read(self, key: str) -> bytes | None:
        """Content of an entry, or None if it is absent, damaged or of another format."""
        path = self.path(key)
        try:
            content = self.unsealed(path.read_bytes())
        except OSError:
            return None
        if content is not None:
            touch(path)
        return content

    def write(self, key: str, content: bytes) -> None:
        """Store an entry, then delete entries over the limits. A full disk causes only a warning."""
        path = self.path(key)
        if self.folder() is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, self.sealed(content))
            self.prune()
        except OSError as error:
            self.warn(path.parent, str(error.strerror))

    def sealed(self, content: bytes) -> bytes:
        """Bytes of an entry's file: mark, checksum, content."""
        return self.mark + sha256(content).hexdigest().encode() + b"\n" + content

    def unsealed(self, stored: bytes) -> bytes | None:
        """Content of an entry's file, or None if the bytes are damaged or of another format."""
        checksum, _, content = stored.removeprefix(self.mark).partition(b"\n")
        is_sound = stored.startswith(self.mark) and sha256(content).hexdigest().encode() == checksum
        return content if is_sound else None

    def prune(self) -> None:
        """Delete entries over the limits, and temporary files of dead writers. An entry may be a folder."""
        prune(self.place(), self.limits, self.suffix)

    def warn(self, folder: Path, reason: str) -> None:
        """Warn once that entries cannot be stored in a folder."""
        message = f"{self.contents} cannot be stored in {folder} ({reason}): {self.consequence}"
        if message not in _warned:
            _warned.add(message)
            warn(message)


_warned: set[str] = set()


@cache
def why_not_writable(folder: Path) -> str | None:
    """Reason of the system why a folder cannot be created or written; None if it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return str(error.strerror)
    return None


def touch(path: Path) -> None:
    """Record the use of an entry: at most once an hour, so that reading rarely writes."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > HOUR:
            os.utime(path)


def prune(folder: Path, limits: CacheLimits, suffix: str = "") -> None:
    """Delete the entries of a folder over the limits, and temporary files older than a day."""
    now, found = time.time(), []
    for path in folder.iterdir():
        with suppress(OSError):  # another process deleted it
            state = path.stat()
            if path.suffix == ".tmp":
                if now - state.st_mtime > DAY:
                    path.unlink()
            elif path.name.endswith(suffix):
                found.append((state.st_mtime, state.st_size, path))
    total = 0
    for number, (used, size, path) in enumerate(sorted(found, reverse=True), start=1):
        total += size
        is_over = (
            (limits.entries is not None and number > limits.entries)
            or (limits.size is not None and total > limits.size)
            or (limits.age is not None and now - used > limits.age)
        )
        if is_over and now - used >= limits.young:
            _delete(path)


def _delete(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
