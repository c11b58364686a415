"""Counts of a launch in the emulator's mode "count", by kernel and by line of the source."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from .flops import Arithmetic, arithmetic
from .kernel import EmulatedLaunch
from .reports import Location, foreign, lines_of

#: Acts of the emulator's counter, in the order of runtime/counter.h.
ACTS = (
    "block", "global load", "global store", "global atomic", "shared load", "shared store", "shared atomic",
)  # fmt: skip
SECTOR = 32


@dataclass
class Count:
    """Counts of one place in the code, of all warps that came there: lanes, bytes, sectors and passes through banks.

    warps : times that a warp came; a request, if the place is an access. lanes : active lanes, of all times.
    sectors : of 32 bytes. bytes : different bytes that were asked for.
    passes : through shared memory's banks, or of an atomic operation through one address; least : without a conflict.
    most : lanes of one warp at one address.
    """

    warps: int = 0
    lanes: int = 0
    sectors: int = 0
    bytes: int = 0
    passes: int = 0
    least: int = 0
    most: int = 0

    def add(self, more: Count) -> None:
        """Add the counts of another place."""
        for name in ("warps", "lanes", "sectors", "bytes", "passes", "least"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.most = max(self.most, more.most)

    @property
    def active(self) -> float:
        """Mean number of active lanes of a warp, 1 to 32."""
        return self.lanes / self.warps if self.warps else 0.0

    @property
    def wasted(self) -> int:
        """Bytes of the sectors that no lane asked for."""
        return SECTOR * self.sectors - self.bytes

    @property
    def conflicts(self) -> int:
        """Passes more than without a conflict."""
        return self.passes - self.least


@dataclass
class Line:
    """Counts of one line of a source: of each kind of access ("global load", ...), and floating-point operations of
    all threads.
    """

    file: str
    number: int
    acts: dict[str, Count] = field(default_factory=lambda: defaultdict(Count))
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def __getitem__(self, act: str) -> Count:
        return self.acts.get(act, Count())


@dataclass
class KernelCounts:
    """Counts of a launch, or of several with the same sizes together.

    static_shared : bytes of shared memory that the kernel declares. has_flops : False if the machine code could not be
    read. launches : number of them.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    static_shared: int
    lines: list[Line]
    has_flops: bool = True
    launches: int = 1

    def total(self, act: str) -> Count:
        """Counts of an act, of all lines."""
        found = Count()
        for line in self.lines:
            found.add(line[act])
        return found

    @property
    def arithmetic(self) -> Arithmetic:
        """Floating point operations of all threads."""
        return sum((line.arithmetic for line in self.lines), Arithmetic())

    @property
    def global_bytes(self) -> int:
        """Bytes of all sectors that global loads, stores and atomics touch."""
        return SECTOR * sum(self.total(f"global {what}").sectors for what in ("load", "store", "atomic"))

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte between multiprocessor and memory system, or None if there are no bytes."""
        return self.arithmetic.flops / self.global_bytes if self.global_bytes else None


#: Grid, block, and bytes of dynamic and static shared memory.
Shape = tuple[tuple[int, int, int], tuple[int, int, int], int, int]


def kernel_counts(name: str, shape: Shape, rows: list[tuple[int, ...]], library: Path) -> KernelCounts:
    """Counts of a launch from the rows of the emulator's counter. library : file with the kernel's machine code."""
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
    ordered = sorted(lines.values(), key=lambda line: (line.file, line.number))
    return KernelCounts(name, *shape, ordered, bool(operations))


def launch_counts(launch: EmulatedLaunch) -> KernelCounts:
    """Counts of a launch that its device, in the mode "count", has run last."""
    config, kernel = launch.config, launch.kernel
    shape = config.grid, config.block, config.shared, kernel.resources.static_shared
    return kernel_counts(launch.name, shape, kernel.device.counts(), kernel.function.library)
