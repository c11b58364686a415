"""`Report`: one fault of a launch, as a sentence with source locations."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..source import HEADERS as SHARED
from .toolchain import HEADERS, RUNTIME

Location = tuple[str, int]

_PROGRAMS = HEADERS.parents[2] / "programs" / "headers"
_FOREIGN = (HEADERS, RUNTIME, _PROGRAMS, Path("/usr/include"), Path("/usr/lib"), Path("/usr/local/include"))

#: Kinds of reports that are no faults.
REMARKS = ("same value", "never read", "nan", "conversion", "early exit", "waits for later blocks")

#: Headers with single instructions as functions: a fault is reported in the line that calls one.
_INSTRUCTIONS = tuple(SHARED / name for name in ("async.cuh", "bulk.cuh", "mma.cuh", "wgmma.cuh"))


@dataclass(frozen=True)
class Report:
    """Fault that the emulator found.

    kind : "race", "unfinished copy", "out of bounds", "uninitialised", "misaligned", "barrier", "left early", "warp
    mask", "deadlock", "cluster", "trap", "phase", "warpgroup", "wgmma fence", "proxy fence", "unfinished product",
    "stack overflow", "later block" or "out of memory"; or one of `REMARKS`.
    message : sentence with file:line of all `locations`, of which the first is where the fault was noticed.
    array : kernel argument or __shared__ variable; "" for none. block, thread : (x, y, z), or None.
    """

    kind: str
    message: str
    locations: list[Location] = field(default_factory=list)
    array: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    kernel: str = ""

    def __str__(self) -> str:
        return f"{self.kernel}: {self.message}" if self.kernel else self.message


def places(text: str, library: Path) -> dict[str, Location]:
    """Source locations by address, for the addresses "+address" in reports, and for "+address/caller/...": the first
    one that is the user's.
    """
    records = map(_fields, _records(text))
    chains = {place[1:]: place[1:].split("/") for *_, found in records for place in found if place.startswith("+")}
    addresses = sorted({address for chain in chains.values() for address in chain})
    lines = dict(zip(addresses, lines_of(library, [int(address) - 1 for address in addresses]), strict=True))
    mine = {address for address, (file, line) in lines.items() if line and not foreign(file)}
    return {at: lines[next((each for each in chain if each in mine), chain[0])] for at, chain in chains.items()}


def _records(text: str) -> list[list[str]]:
    return [record.split("\x1f") for record in text.split("\x1e") if record]


def read(text: str, kernel: str, library: Path, lines: dict[str, Location] | None = None) -> list[Report]:
    """Reports from the runtime's text: separators end fields and reports; places are @file:line or +address.

    lines : source lines of the addresses, if they are known.
    """
    records = _records(text)
    lines = places(text, library) if lines is None else lines
    out = []
    for record in records:
        kind, message, array, block, thread, found = _fields(record)
        locations = [lines[place[1:]] if place.startswith("+") else _named(place[1:])[0] for place in found]
        if "{array}" in message:
            array = _indexed(*_named(found[0][1:]))
            message = message.replace("{array}", array or "an array")
        shown = [f"{Path(file).name}:{line}" for file, line in locations]
        for number, place in enumerate(shown):
            message = message.replace(f"{{{number}}}", place)
        out.append(Report(kind, message, locations, array, _triple(block), _triple(thread), kernel))
    return out


def _fields(record: list[str]) -> tuple[str, str, str, str, str, list[str]]:
    kind, message, array, block, thread, *places = record
    return kind, message, array, block, thread, [place for place in places if place]


def _named(place: str) -> tuple[Location, int]:
    """Location (file, line) and column of a finding's text "file:line:column"; column 0 is an unknown one."""
    file, line, column = place.rsplit(":", 2)
    return (file, int(line)), int(column)


def _indexed(location: Location, column: int) -> str:
    """Name of the array whose index ends at this column of the source; "" if none is found."""
    try:
        line = Path(location[0]).read_text(encoding="utf-8").splitlines()[location[1] - 1][:column]
    except (OSError, IndexError):
        return ""
    while (line := line.rstrip()).endswith("]"):
        depth = 0
        for position in range(len(line) - 1, -1, -1):
            depth += (line[position] == "]") - (line[position] == "[")
            if depth == 0:
                break
        line = line[:position]
    name = re.search(r"\w+$", line)
    return name[0] if name else ""


def _triple(text: str) -> tuple[int, int, int] | None:
    if not text:
        return None
    x, y, z = (int(part) for part in text.strip("()").split(","))
    return x, y, z


def lines_of(library: Path, addresses: list[int]) -> list[Location]:
    """Source lines of a library's addresses; for an inlined function of the emulator's headers, the calling line."""
    if not addresses:
        return []
    command = ["addr2line", "-a", "-i", "-e", str(library), *map(hex, addresses)]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return [("?", 0)] * len(addresses)
    out: list[Location] = []
    for chain in _chains(output):
        mine = [place for place in chain if not foreign(place[0])]
        out.append((mine or chain or [("?", 0)])[0])
    return out


def foreign(file: str) -> bool:
    """True if a file belongs to the emulator or the compiler, not to the user."""
    return Path(file) in _INSTRUCTIONS or any(root in Path(file).parents for root in _FOREIGN)


def _chains(output: str) -> Iterator[list[Location]]:
    """Locations for each address in addr2line's output: file:line of each inlined function, the innermost first."""
    chain: list[Location] | None = None
    for line in output.splitlines():
        if line.startswith("0x") and ":" not in line:
            if chain is not None:
                yield chain
            chain = []
        elif chain is not None:
            file, _, number = line.split(" (")[0].rpartition(":")
            if number.isdigit():
                chain.append((file, int(number)))
    if chain is not None:
        yield chain
