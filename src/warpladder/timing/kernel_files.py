"""Kernel files of a user's rung: the command that checks them when their proof fails."""

from __future__ import annotations

import re
from pathlib import Path


def kernel_hint(path: str | None) -> str:
    """Command that checks the .cu files of a user's rung, to append to a reason; empty if the rung has no .cu files."""
    found = kernel_files(path)
    return f": run `warpladder check {' '.join(found)}`" if found else ""


def kernel_files(path: str | None) -> list[str]:
    """Paths of the .cu files that a Python file names and that are in its folder; or the path itself if it is a .cu
    file.
    """
    if path is None:
        return []
    file = Path(path).expanduser()
    if path.endswith(".cu"):
        return [path]
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    names = dict.fromkeys(re.findall(r"[\"']([\w./-]+\.cu)[\"']", text))
    return [str(Path(path).parent / name) for name in names if (file.parent / name).is_file()]
