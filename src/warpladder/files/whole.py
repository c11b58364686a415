"""Files that are whole or not there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file: an old one stays as it is until the new one is on the disk; `OSError` names the file."""
    path = Path(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(fresh, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException as error:
        with suppress(OSError):
            fresh.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise
