"""Warnings of the compiler: local variables of device code that may have no value, and headers that no folder has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..checker.faults import Problem
from ..device.emulator.functions import of_device
from ..device.emulator.rewrite import bare
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
#: Warning of an array of variable length.
_LENGTH = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? warning: variable length array [‘'](?P<name>\w+)[’']", re.MULTILINE
)


def variable_length(messages: str, sources: ProgramFiles) -> str | None:
    """Reason why nvcc refuses an array in device code whose length is a number of the kernel's; None without one.

    A length by a call or by a constant may be one that nvcc knows, though the compiler here does not.
    """
    for match in _LENGTH.finditer(messages):
        source = sources.files.get(Path(match["file"]))
        plain = bare(source.text) if source else ""
        start = sum(len(line) + 1 for line in plain.split("\n")[: int(match["line"]) - 1])
        size = re.compile(rf"\b{match['name']}\s*(?P<size>(?:\[[^;{{}}]*\])+)").search(plain, start)
        if not size or "\n" in plain[start : size.start()]:
            continue
        lengths = re.findall(r"(?<![\w.>])[A-Za-z_]\w*", size["size"])
        heads = (plain[first:body] for first, body, last in of_device(plain) if first < size.start() < last)
        if lengths and "(" not in size["size"] and any(all(_varies(h, plain, n) for n in lengths) for h in heads):
            return (
                f"{match['file']}:{match['line']}: {match['name']}{size['size']} has no constant length, which device "
                "code needs: take a constant, or shared memory whose bytes the launch gives"
            )
    return None


def _varies(head: str, plain: str, name: str) -> bool:
    """True if a name is a parameter in a function's head, or nothing that a file makes a constant."""
    if re.search(rf"\b{name}\s*[,)]", head) or name in ("blockDim", "gridDim", "threadIdx", "blockIdx", "warpSize"):
        return True
    return not re.search(rf"\b(?:const|constexpr|enum|define|template)\b[^;{{}}()]*\b{name}\b", plain)


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
    """Remark on each warning of a program."""
    path = _next_to(executable)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return tuple(Problem(kind, message, ((file, int(line)),), "", "", 0, ()) for kind, message, file, line in rows)


def _next_to(executable: Path) -> Path:
    return executable.with_name(f"{executable.name}.suspects")
