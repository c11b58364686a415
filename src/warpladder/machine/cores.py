"""Number of cores that this process may use: its affinity, and the CPU quota of its containers (cgroups); and a limit
to fewer of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..errors import DeviceError

CGROUP = Path("/sys/fs/cgroup")  # limits of containers on Linux
CGROUPS_OF_PROCESS = Path("/proc/self/cgroup")  # cgroups of this process


def cores() -> int:
    """Number of cores that this process may use: the cores of its affinity, at most its containers' CPU quota."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows bind no process to cores
        count = os.cpu_count() or 1
    return max(1, min(count, math.ceil(min(quota(), count))))


@contextmanager
def limited(number: int) -> Iterator[None]:
    """Keep all threads of this process, and what they start meanwhile, on this number of cores. Linux only.

    Raises
    ------
    DeviceError
        There are fewer cores, or the system binds no process to cores.
    """
    before = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if len(before) < number:
        raise DeviceError(f"{number} cores are wanted, and this process has {len(before) or 'no choice of them'}")
    _bind(set(sorted(before)[:number]))
    try:
        yield
    finally:
        _bind(before)


def _bind(chosen: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), chosen)


def quota() -> float:
    """CPU quota in cores of this process's cgroups, the smallest of `cpu.max` or `cpu.cfs_quota_us`; infinite
    without one. It is read once in a process.
    """
    return _quota(CGROUP, CGROUPS_OF_PROCESS)


@cache
def _quota(root: Path, groups: Path) -> float:
    return min((_limit(folder) for folder in _cgroups(root, groups)), default=math.inf)


def _cgroups(top: Path, groups: Path) -> Iterator[Path]:
    """Folders of this process's visible cgroups, innermost first. In a container its own cgroup is often the root."""
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    # In a container its own cgroup is mounted at the root; outside it has another name.
    for line in dict.fromkeys([*lines, "0::/", ":cpu:/"]):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (top / "cpu", top / "cpu,cpuacct") if controllers else (top, top / "unified"):
            inside = root / path.lstrip("/")
            yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(root))


def _limit(folder: Path) -> float:
    """CPU quota of one cgroup in cores; infinite without one."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            most, period = (int(word) for name in names for word in (folder / name).read_text(encoding="ascii").split())
        except (OSError, ValueError):  # no such file; or "max", which is no number
            continue
        if most > 0 and period > 0:  # -1 is cgroup v1's "no limit"
            return most / period
    return math.inf
