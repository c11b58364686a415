"""Counts of a description's launches on the emulator, by kernel and by line of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...device.emulator.counts import KernelCounts, launch_counts
from ...device.emulator.device import EmulatedDevice
from ...device.emulator.hostcode import device_code
from ...device.emulator.kernel import EmulatedLaunch
from ...errors import KernelError
from ..description import Description
from ..passes import Pass, TimeLimit
from ..plan import plan


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
        self.counts.append(launch_counts(launch))


def plural(count: int, what: str) -> str:
    """Number with its noun: "1 request", "2,048 requests"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def text_of(file: str) -> list[str]:
    """Lines of a source; [] if it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []
