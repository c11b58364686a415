"""A description run twice, with zeros and with rubbish in local variables that have no value: a kernel must do the same
both times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..device import Source
from ..device.emulator.locals import FILLS, places
from ..device.emulator.module import whole_text
from .compare import first_difference
from .limit import TimeLimit
from .passes import Once, Write
from .plan import Plan

Seen = tuple[list[str], dict[str, np.ndarray] | None]


def compared(worked_out: Plan, source: Source, seed: int, limit: TimeLimit, write: Write) -> None:
    """Write it down if what launches do depends on local variables without a value, with the lines that the compiler
    suspects.
    """
    zeros, rubbish = (_once(fill, worked_out, source, seed, limit, write) for fill in FILLS)
    array, what = _difference(zeros, rubbish)
    if not what:
        return
    named = places(whole_text(source, tuple(launch.signature.name for launch in worked_out.launches)))
    shown = ", ".join(f"{name} at {Path(file).name}:{line}" for name, file, line in named)
    where = [(file, line) for _, file, line in named]
    write(
        kind="uninitialised local",
        message=what + (f". The compiler suspects {shown}" if shown else ""),
        places=where,
        array=array,
    )


def _once(fill: str, worked_out: Plan, source: Source, seed: int, limit: TimeLimit, write: Write) -> Seen:
    """What was found and what arrays held in the end; one OS thread, and builds that differ in nothing else, so that
    results are the same bits.
    """
    said: list[str] = []

    def listen(**entry: Any) -> None:
        if "launch" in entry:
            write(**entry)
        elif "kind" in entry:
            said.append(entry["message"])

    return said, Once(worked_out, source, "fast", "forward", seed, limit, listen, local=fill).run()


def _difference(zeros: Seen, rubbish: Seen) -> tuple[str, str]:
    """The array in which two runs differ and how, in a sentence; both are empty where they agree."""
    if zeros[0] != rubbish[0]:
        with_zeros, with_rubbish = ("; ".join(said) or "nothing is wrong" for said, _ in (zeros, rubbish))
        return "", f"with rubbish in local variables that have no value: {with_rubbish}; with zeros: {with_zeros}"
    for name, held in (zeros[1] or {}).items():
        other = (rubbish[1] or {})[name]
        where, is_zero, is_rubbish, count = first_difference(name, held, other)
        if count:
            differ = f"{count:,} of {held.size:,} numbers differ"
            return (
                name,
                f"{where} is {is_zero} if local variables without a value hold zeros, and {is_rubbish} if they hold rubbish; {differ}",
            )
    return "", ""
