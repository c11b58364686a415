"""Headers for which a project's Makefile names a folder: searched in the project that a file is in."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

#: Folders of the compiler's headers, which are taken before a project's.
_SYSTEM = tuple(map(Path, ("/usr/include", "/usr/local/include", "/usr/include/x86_64-linux-gnu")))
#: Most folders above a file that are searched, and folders below each of them.
LEVELS, BELOW = 4, ("", "*", "*/*")
_NAME = re.compile(r"[\w.+-]+(?:/[\w.+-]+)*")


@cache
def nearby(name: str, file: Path) -> Path | None:
    """Path of a header by its name: in the nearest folder above `file` that has it, or up to two folders below one.

    None without such a header, with several of different content, and for a header of the compiler. The search ends at
    a folder with .git, and comes to no home folder and none at the root of the file system.
    """
    name = re.sub(r"^(?:\.\./)+", "", name)  # from a folder that -I would name
    if (
        not _NAME.fullmatch(name)
        or ".." in name
        or "." not in name
        or any((folder / name).is_file() for folder in _SYSTEM)
    ):
        return None
    for folder in list(file.parents)[:LEVELS]:
        if folder == Path.home() or len(folder.parts) < 3:
            return None
        found = {path.resolve() for below in BELOW for path in folder.glob(f"{below}/{name}" if below else name)}
        if found:
            return min(found) if len({path.read_bytes() for path in found}) == 1 else None
        if (folder / ".git").exists():
            return None
    return None
