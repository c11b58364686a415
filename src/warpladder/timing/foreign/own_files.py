"""Files of warpladder itself: code of a user's file may not change them unseen, for later rows are proven by them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]

#: Size in bytes and time of the last change in nanoseconds of each file, by its path.
Stamps = dict[str, tuple[int, int]]


def stamps(folder: str | os.PathLike[str] = PACKAGE) -> Stamps:
    """Stamps of the package's files. No program can set a file's time of change; bytecode is left out."""
    return dict(_entries(os.fspath(folder)))


def changed(before: Stamps, folder: str | os.PathLike[str] = PACKAGE) -> str:
    """Relative path of the first file that was changed, removed or added since, or ""."""
    now = stamps(folder)
    other = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return os.path.relpath(other[0], folder) if other else ""


def bytecode(folder: str | os.PathLike[str] = PACKAGE) -> Stamps:
    """Stamps of the package's bytecode, which Python takes in place of a source file."""
    return {path: stamp for path, stamp in _entries(os.fspath(folder), True) if path.endswith(".pyc")}


def remove_bytecode(before: Stamps, folder: str | os.PathLike[str] = PACKAGE) -> None:
    """Remove bytecode that was written since: it may be another program's than the source's. Python makes it anew."""
    for path, stamp in bytecode(folder).items():
        if before.get(path) != stamp:
            with suppress(OSError):
                os.remove(path)


def _entries(folder: str, is_cached: bool = False) -> Iterator[tuple[str, tuple[int, int]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if is_cached or entry.name != "__pycache__":
                    yield from _entries(entry.path, is_cached)
            else:
                found = entry.stat(follow_symlinks=False)
                yield entry.path, (found.st_size, found.st_ctime_ns)
