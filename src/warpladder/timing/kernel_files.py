"""Kernels of a user's file: what to run when a proof of them fails."""

from __future__ import annotations

import re
from pathlib import Path


def kernel_hint(path: str | None) -> str:
    """The command that checks the .cu files that a user's rung in this file names, as the end of a reason; empty if
    there are none.
    """
    found = kernel_files(path)
    return f": run `warpladder check {' '.join(found)}`" if found else ""


def kernel_files(path: str | None) -> list[str]:
    """The .cu files that a Python file names and that are in its folder, as a user would write them; or a .cu file."""
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
