"""Compiled files that end in a checksum: a damaged one is made anew."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

#: Mark before the checksum at the end of a compiled file, where loader and compiler do not look.
END = b"\nwarpladder sha256 "


def is_whole(path: Path) -> bool:
    """True if a file exists and has the content that its checksum states. A file that was cut off, as by a crash of the
    machine, would end the process when it is loaded.
    """
    try:
        state = path.stat()
    except OSError:
        return False
    return _is_sound(path, state.st_size, state.st_mtime_ns, state.st_ino)


@cache
def _is_sound(path: Path, size: int, changed: int, number: int) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    content, end = content[: -len(END) - 64], content[-len(END) - 64 :]
    return end == END + hashlib.sha256(content).hexdigest().encode()
