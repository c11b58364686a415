"""Counts of a description's launches on the emulator, by kernel and by line of the source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...device.emulator.device import EmulatedDevice
from ...device.emulator.hostcode import device_code
from ...device.emulator.kernel import EmulatedLaunch
from ...device.emulator.reports import Location, foreign, lines_of
from ...errors import KernelError
from ..description import Description
from ..passes import Pass, TimeLimit
from ..plan import plan
from .flops import Arithmetic, arithmetic

#: Acts of the emulator's counter, in the order of runtime/counter.h.
ACTS = (
    "block", "global load", "global store", "global atomic", "shared load", "shared store", "shared atomic",
)  # fmt: skip
SECTOR = 32


@dataclass
class Count:
    """Counts of one place in the code over all warps: lanes, bytes, sectors and passes through banks.

    warps : times that a warp executed it; for an access, requests. lanes : active lanes, summed over these times.
    sectors : sectors of 32 bytes. bytes : distinct requested bytes.
    passes : passes through shared memory's banks, or of an atomic operation through one address; least : without
    conflicts.
    most : most lanes of one warp at one address.
    """

    warps: int = 0
    lanes: int = 0
    sectors: int = 0
    bytes: int = 0
    passes: int = 0
    least: int = 0
    most: int = 0

    def add(self, more: Count) -> None:
        """Add the counts of another place to these."""
        for name in ("warps", "lanes", "sectors", "bytes", "passes", "least"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.most = max(self.most, more.most)

    @property
    def active(self) -> float:
        """Mean number of active lanes of a warp, 1 to 32."""
        return self.lanes / self.warps if self.warps else 0.0

    @property
    def wasted(self) -> int:
        """Bytes of the sectors that no lane requested."""
        return SECTOR * self.sectors - self.bytes

    @property
    def conflicts(self) -> int:
        """Number of additional passes through conflicts."""
        return self.passes - self.least


@dataclass
class Line:
    """Counts of one line of a source: by act, and the floating-point operations of all threads."""

    file: str
    number: int
    acts: dict[str, Count] = field(default_factory=lambda: defaultdict(Count))
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def __getitem__(self, act: str) -> Count:
        return self.acts.get(act, Count())


@dataclass
class KernelCounts:
    """Counts of one launch. static_shared : bytes of shared memory that the kernel declares.

    has_flops : False if the machine code could not be read.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    static_shared: int
    lines: list[Line]
    has_flops: bool = True

    def total(self, act: str) -> Count:
        """Counts of an act, summed over all lines."""
        found = Count()
        for line in self.lines:
            found.add(line[act])
        return found

    @property
    def arithmetic(self) -> Arithmetic:
        """Floating-point operations of all threads."""
        return sum((line.arithmetic for line in self.lines), Arithmetic())

    @property
    def global_bytes(self) -> int:
        """Bytes of all sectors that global loads, stores and atomics touch."""
        return SECTOR * sum(self.total(f"global {what}").sectors for what in ("load", "store", "atomic"))

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte between multiprocessor and memory system, or None without bytes."""
        return self.arithmetic.flops / self.global_bytes if self.global_bytes else None


def measure(description: Description, limit: float, over: Callable[[str], None], seed: int = 0) -> list[KernelCounts]:
    """Counts of each launch of a description.

    limit : most seconds of a launch; 0 for no limit. over : called by another thread with the place of a thread,
    if a launch takes longer; ends the process.
    Raises KernelError: a launch is impossible, or has a fault, after which counts are meaningless.
    """
    source = device_code(description.source)
    entries: list[dict[str, Any]] = []

    def write(**entry: Any) -> None:
        entries.append(entry)

    run = CountPass(plan(description, source, seed), source, "count", "forward", seed, CountLimit(limit, write), write)
    run.limit.over = over  # type: ignore[attr-defined]
    run.run()
    for entry in entries:
        what = entry.get("message") or entry.get("why")
        if what and ("kind" in entry or "refused" in entry):
            kind = entry.get("kind", "refused")
            raise KernelError(f"{kind}: {what}: counts of a faulty launch mean nothing, run `warpladder check` first")
    return run.counts


class CountLimit(TimeLimit):
    """Time limit of a counted launch."""

    over: Callable[[str], None]

    def _over(self, device: EmulatedDevice, launch: EmulatedLaunch) -> None:
        found = device.stuck(launch)
        where = f": {found[0].message}" if found else ""
        self.over(f"kernel {launch.name} did not end within {self.seconds:g} s{where}; --timeout gives it more time")


@dataclass
class CountPass(Pass):
    """Pass over the launches that stores their counts."""

    counts: list[KernelCounts] = field(default_factory=list, init=False)

    def _learn(self, number: int, launch: EmulatedLaunch, found: list[Any]) -> None:
        library = launch.kernel.function.library
        rows = launch.kernel.device.counts()
        places = dict(zip((row[1] for row in rows), lines_of(library, [row[1] - 1 for row in rows]), strict=True))
        operations = arithmetic(library)
        lines: dict[Location, Line] = {}
        for act, code, *values in rows:
            place = places[code]
            if foreign(place[0]):  # the emulator's own code
                continue
            line = lines.setdefault(place, Line(*place))
            count = Count(*values)
            line.acts[ACTS[act]].add(count)
            if ACTS[act] == "block":
                line.arithmetic += operations.get(code, Arithmetic()).times(count.lanes)
        config, static = launch.config, launch.kernel.resources.static_shared
        ordered = sorted(lines.values(), key=lambda line: (line.file, line.number))
        found_flops = bool(operations)
        self.counts.append(
            KernelCounts(launch.name, config.grid, config.block, config.shared, static, ordered, found_flops)
        )


def plural(count: int, what: str) -> str:
    """Number with its noun: "1 request", "2,048 requests"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def text_of(file: str) -> list[str]:
    """Lines of a source; [] if it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []
