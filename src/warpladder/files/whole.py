"""Reader of whole files: no device can make it endless, and what stands in a file's place is named."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

#: First bytes of the text that git keeps in place of a large file.
POINTER = b"version https://git-lfs"


#: What to do with an address, in messages.
ADDRESS = "is an address: download the file first, and name it"


def is_address(name: str | os.PathLike[str]) -> bool:
    """True for an address, as https://..., in place of a file; a Path has made one / of the two."""
    return re.match(r"[a-z][a-z0-9+.-]+:/+", os.fspath(name)) is not None and not os.path.exists(name)


class NotTheFile(OSError):
    """Something else than a file: a device, or text that git keeps in its place."""


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a file or pipe. Raises `OSError` if it cannot be read, `NotTheFile` for a device, as /dev/zero, which
    has no end, and for a pointer of Git LFS.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise NotTheFile(errno.ENODEV, "is a device, where a file is wanted", os.fspath(path))
    content = Path(path).read_bytes()
    if content.startswith(POINTER):
        raise NotTheFile(errno.ENODATA, "is a Git LFS pointer, not the file itself: run git lfs pull", os.fspath(path))
    return content
