"""Two `extern __shared__` arrays of one kernel: both begin at the first byte of its dynamic shared memory, so that what
is stored in one is lost in the other.

Found in the text, where it is certain: one array is stored to, then the other, and then the first one is read.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..device.emulator.rewrite import bare, closing
from .faults import Problem

_DECLARED = re.compile(
    r"\bextern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?(?:volatile\s+)?"
    r"(?P<type>\w[\w:<>, ]*?)\s+(?P<name>\w+)\s*\[\s*\]\s*;"
)
_KERNEL = re.compile(r"\b__(?:global|device)__\b[^;{}]*\b(?P<name>\w+)\s*\([^;{}]*\{")


def overlaps(path: Path, text: str) -> list[Problem]:
    """Problem of each kernel of a source that uses two `extern __shared__` arrays as if they were apart."""
    plain = bare(text)
    whole = {match["name"]: match for match in _DECLARED.finditer(plain) if not _is_inside(plain, match.start())}
    found = []
    for kernel in _KERNEL.finditer(plain):
        last = closing(plain, kernel.end() - 1)
        body = plain[kernel.end() : last]
        own = {match["name"]: match for match in _DECLARED.finditer(body)}
        names = [name for name in (whole | own) if re.search(rf"\b{name}\s*\[(?!\s*\])", body)]
        clash = next(((a, b, at) for a in names for b in names if a != b and (at := _lost(body, a, b))), None)
        if clash:
            first, second, at = clash
            lines = [plain.count("\n", 0, kernel.end() + position) + 1 for position in at]
            found.append(_problem(path, kernel["name"], (first, second), lines))
    return found


def _is_inside(plain: str, position: int) -> bool:
    """True for a position inside of a function."""
    return any(closing(plain, match.end() - 1) > position for match in _KERNEL.finditer(plain[:position]))


def _lost(body: str, first: str, second: str) -> tuple[int, int, int] | None:
    """Positions of a store to `first`, one to `second` whose index is the same or a name alone, and a read of `first`,
    in this order with no store to `first` before the read; None without them.
    """
    uses = []
    for match in re.finditer(rf"(?<![\w.>&])(?P<name>{first}|{second})\s*\[(?!\s*\])", body):
        end = closing(body, match.end() - 1, "[]")
        index = re.sub(r"\s+", "", body[match.end() : end - 1])
        is_store = re.match(r"\s*=(?!=)", body[end:]) is not None
        # what stands to the right of the sign is read before
        at = body.find(";", end) if is_store else match.start()
        uses.append((at, match["name"], index if is_store else "", is_store))
    stored: dict[str, tuple[int, str]] = {}
    for at, name, index, is_store in sorted(uses):
        if is_store:
            stored[name] = at, index
        elif name == first and first in stored and second in stored:
            (earlier, one), (later, other) = stored[first], stored[second]
            if earlier < later and (one == other or re.fullmatch(r"[\w.]+", other)):
                return earlier, later, at
    return None


def _problem(path: Path, kernel: str, names: tuple[str, str], lines: list[int]) -> Problem:
    first, second = names
    one, other, read = (f"{path.name}:{line}" for line in lines)
    message = (
        f"{first} and {second} are the same bytes: every extern __shared__ array begins at the first byte of the "
        f"dynamic shared memory. What {one} stores in {first} is lost at {other}, which stores in {second}, and "
        f"{read} reads {first}"
    )
    places = tuple((str(path), line) for line in dict.fromkeys((lines[2], lines[1], lines[0])))
    return Problem("same bytes", message, places, first, kernel, 0, ())
