"""Directives #line, by which the compiler and the checker name the lines of the user's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_DIRECTIVE = re.compile(r'^#line (\d+) "((?:\\.|[^"\\\n])*)"$', re.MULTILINE)


def quoted(file: Path | str) -> str:
    """Name of a file as a string of C++, with its quotation marks."""
    name = file.as_posix() if isinstance(file, Path) else file
    return '"' + name.replace("\\", r"\\").replace('"', r"\"") + '"'


def directive(line: int, file: Path | str) -> str:
    """Directive that gives the next line its number and file."""
    return f"#line {line} {quoted(file)}"


def directives(text: str, end: int | None = None) -> Iterator[tuple[int, str, int]]:
    """Line, file, and position after each directive of a text, up to a position."""
    for match in _DIRECTIVE.finditer(text, 0, len(text) if end is None else end):
        yield int(match[1]), re.sub(r"\\(.)", r"\1", match[2]), match.end()
