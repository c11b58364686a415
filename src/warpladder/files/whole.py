"""Reader of whole files, which no device can make endless."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a file or pipe. Raises `OSError` if it cannot be read, or is a device: /dev/zero has no end."""
    mode = os.stat(path).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.ENODEV, "is a device, where a file is wanted", os.fspath(path))
    return Path(path).read_bytes()
