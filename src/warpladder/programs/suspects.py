"""What the compiler warns of: local variables of device code that may have no value, and headers that are nowhere."""

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
#: Warning in place of a header that is nowhere (ProgramFiles.redirected).
_ABSENT = re.compile(r"^([^\n:]+):(\d+):(?:\d+:)? warning: #warning there is no header (\S+)", re.MULTILINE)


def keep(executable: Path, messages: Iterable[str], sources: ProgramFiles) -> None:
    """Write what the compiler's messages warn of next to a program; nothing without any."""
    places = {str(path): device_lines(source.text) for path, source in sources.files.items()}
    whole = "\n".join(messages)
    found = [
        f"no value\t{match['name']} may be read before it has a value\t{match['file']}\t{match['line']}\n"
        for match in _WARNING.finditer(whole)
        if any(int(match["line"]) in lines for lines in places.get(match["file"], ()))
    ] + [
        f"header\tthere is no header {name}, and nothing here needs it\t{file}\t{line}\n"
        for file, line, name in _ABSENT.findall(whole)
    ]
    if found:
        with replacing_path(_next_to(executable)) as temporary:
            temporary.write_text("".join(dict.fromkeys(found)), encoding="utf-8")


def remarks(executable: Path) -> tuple[Problem, ...]:
    """A remark for each warning of a program."""
    path = _next_to(executable)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return tuple(Problem(kind, message, ((file, int(line)),), "", "", 0, ()) for kind, message, file, line in rows)


def _next_to(executable: Path) -> Path:
    return executable.with_name(f"{executable.name}.suspects")
