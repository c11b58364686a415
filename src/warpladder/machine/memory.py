"""Main memory: its size, the free bytes, and the largest resident set of this process."""

from __future__ import annotations

import os
from pathlib import Path

from .cores import CGROUP


def memory() -> int | None:
    """Bytes of main memory; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def free_memory() -> int | None:
    """Bytes of main memory free for this process, within its container's limit; None if the system does not report
    it.
    """
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return memory()
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            left = int((CGROUP / limit).read_text()) - int((CGROUP / used).read_text())
            stat = dict(line.split() for line in (CGROUP / used).with_name("memory.stat").read_text().splitlines())
            free = min(free, left + int(stat["inactive_file"]))  # cached files, which the system evicts on demand
        except (OSError, ValueError, KeyError):  # there is none, or it is "max"
            continue
    return max(free, 0)


def resident_peak(process: int | None = None) -> int:
    """Largest resident set in bytes of this process, or of one with this id: VmHWM on Linux, where `ru_maxrss` is
    inherited from the parent. 0 if the system does not report another process's.
    """
    status = Path(f"/proc/{process or 'self'}/status")
    if status.exists():
        found = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(found[0].split()[1]) << 10 if found else 0
    if process is not None:
        return 0
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
