"""Detection of reads of local variables without a value: runs with zeros and with a pattern in them must be equal."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..device import KernelSource
from ..device.emulator.module import whole_text
from ..device.emulator.reports import foreign
from ..device.emulator.rewrite import bare
from ..device.emulator.toolchain import FILLED_FLAGS, HEADERS, compiler
from .contents import first_difference
from .passes import Pass, TimeLimit, Write
from .plan import CheckPlan

#: Fills of local variables without a value that g++ has from version 12 on.
FILLS = ("zero", "pattern")

_STATEMENT = re.compile(
    r"(?<=[;{}])\s*(?P<type>(?:[A-Za-z_][\w:]*(?:\s*<[^;{}()]*>)?[\s*]+)+)(?P<names>[A-Za-z_][^;{}()]*);"
)
_NO_VARIABLE = re.compile(
    r"\b(?:return|goto|break|continue|typedef|using|extern|static|else|case|new|delete|operator"
    r"|__shared__|__constant__)\b"
)
_WARNING = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? warning: (?:‘|')(?P<name>[^’'\n]+)(?:’|') "
    r"(?:is|may be) used uninitialized",
    re.MULTILINE,
)

#: Messages of a run, and the arrays' contents after it, or None where it could not be finished.
Outcome = tuple[list[str], dict[str, np.ndarray] | None]


def suspected(source: KernelSource) -> bool:
    """True if a source declares a local variable, or a member of a struct, without a value."""
    return any(
        not _NO_VARIABLE.search(match["type"]) and any("=" not in name for name in match["names"].split(","))
        for match in _STATEMENT.finditer(bare(source.text))
    )


def comparable() -> bool:
    """True if the compiler can fill local variables (g++ from version 12 on)."""
    return int(re.match(r"\d*", compiler().version)[0] or 0) >= 12  # type: ignore[index]


def compare_fills(plan: CheckPlan, source: KernelSource, seed: int, limit: TimeLimit, write: Write) -> None:
    """Report a fault if the launches depend on local variables without a value, with the compiler's suspects."""
    zeros, pattern = (_run(fill, plan, source, seed, limit, write) for fill in FILLS)
    array, difference = _difference(zeros, pattern)
    if not difference:
        return
    named = suspects(whole_text(source, tuple(launch.signature.name for launch in plan.launches)))
    shown = ", ".join(f"{name} at {Path(file).name}:{line}" for name, file, line in named)
    message = difference + (f". The compiler suspects {shown}" if shown else "")
    places = [(file, line) for _, file, line in named]
    write(kind="uninitialised local", message=message, places=places, array=array)


def suspects(text: str) -> list[tuple[str, str, int]]:
    """Variables that the compiler reports as read before they have a value, each with file and line; `text` is
    complete C++.
    """
    includes = [f"-I{HEADERS}", f"-I{HEADERS / 'cuda'}"]
    flags = ["-std=gnu++20", *FILLED_FLAGS, "-fwhole-program", "-Wall", *includes]
    command = [*compiler().command, *flags, "-S", "-o", "/dev/null", "-x", "c++", "-"]
    warnings = subprocess.run(command, input=text, capture_output=True, text=True).stderr
    return list(dict.fromkeys(_named(warnings)))


def _named(warnings: str) -> Iterator[tuple[str, str, int]]:
    for match in _WARNING.finditer(warnings):
        if not foreign(match["file"]):
            yield re.sub(r"\b\w+::", "", match["name"]), match["file"], int(match["line"])


def _run(fill: str, plan: CheckPlan, source: KernelSource, seed: int, limit: TimeLimit, write: Write) -> Outcome:
    """Messages of a run whose local variables begin as `fill`, zeros or a pattern, and its arrays by name.

    It runs in one OS thread: without a read of such a variable runs with two fills have equal bits.
    """
    messages: list[str] = []

    def listen(**entry: Any) -> None:
        if "launch" in entry:
            write(**entry)
        elif "kind" in entry:
            messages.append(entry["message"])

    return messages, Pass(plan, source, "fast", "forward", seed, limit, listen, local=fill).run()


def _difference(zeros: Outcome, pattern: Outcome) -> tuple[str, str]:
    """Array in which two runs differ, and a sentence about the difference; both empty if the runs agree."""
    if zeros[0] != pattern[0]:
        with_zeros, with_rubbish = ("; ".join(messages) or "nothing is wrong" for messages, _ in (zeros, pattern))
        return "", f"with rubbish in local variables that have no value: {with_rubbish}; with zeros: {with_zeros}"
    for name, held in (zeros[1] or {}).items():
        where, is_zero, is_rubbish, count = first_difference(name, held, (pattern[1] or {})[name])
        if count:
            values = f"{where} is {is_zero} if local variables without a value hold zeros, and {is_rubbish} if they"
            return name, f"{values} hold rubbish; {count:,} of {held.size:,} numbers differ"
    return "", ""
