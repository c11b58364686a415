"""Local variables of device code that the compiler suspects to be read before they have a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..checker.faults import Problem
from ..files.atomic import replacing_path
from .rewrite import device_lines
from .sources import ProgramFiles

#: Warnings of g++ that name them.
WARNINGS = ("-Wuninitialized", "-Wmaybe-uninitialized")

_WARNING = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? warning: [‘'](?P<name>[^’'\n]+)[’'] (?:is|may be) used uninitialized",
    re.MULTILINE,
)


def keep(executable: Path, messages: Iterable[str], sources: ProgramFiles) -> None:
    """Write the suspects in the compiler's messages next to a program; nothing without any."""
    places = {str(path): device_lines(source.text) for path, source in sources.files.items()}
    found = [
        f"{match['name']}\t{match['file']}\t{match['line']}\n"
        for match in _WARNING.finditer("\n".join(messages))
        if any(int(match["line"]) in lines for lines in places.get(match["file"], ()))
    ]
    if found:
        with replacing_path(_next_to(executable)) as temporary:
            temporary.write_text("".join(dict.fromkeys(found)), encoding="utf-8")


def remarks(executable: Path) -> tuple[Problem, ...]:
    """A remark for each suspect of a program."""
    path = _next_to(executable)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return tuple(
        Problem("no value", f"{name} may be read before it has a value", ((file, int(line)),), "", "", 0, ())
        for name, file, line in rows
    )


def _next_to(executable: Path) -> Path:
    return executable.with_name(f"{executable.name}.suspects")
