"""The processors of this machine, and how the processes of `pytest -n` share them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

#: Each process imports and collects everything, and holds about a gigabyte.
MOST_PROCESSES = 16

#: Processors that this process may be sent to.
COUNT = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota() -> float:
    """Processors that a container's share of time is worth; infinite without a limit."""
    try:
        most, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return float(most) / float(period)
    except (OSError, ValueError):  # other systems; "max" is no number
        return math.inf


def processes() -> int:
    """Processes for the tests: one for each processor."""
    return max(1, min(COUNT, MOST_PROCESSES, math.ceil(min(quota(), MOST_PROCESSES))))


def share() -> None:
    """Let this process, one of several, keep one processor busy, whatever a test leaves open.

    OpenMP's threads would spin while they wait for a processor that another process has. Our own give it away: they
    are two, so that what threads share is tested on every machine alike.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    patch = pytest.MonkeyPatch()  # imports NumPy, which reads these when it is loaded
    patch.setattr("warpladder.machine.facts.cores", lambda: 1)
    for module in ("warpladder.device.emulator.device", "warpladder.trainers.native.trainer"):
        patch.setattr(f"{module}.cores", lambda: 2)
