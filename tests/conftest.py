"""How the tests share the machine: `pytest -n auto` takes a process for each processor, and a process takes whole files.

A file is the unit because its tests share what is dear to make: compiled kernels, drawn cases, references.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # before anything imports NumPy: the processors are taken by the other processes
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")

#: Each process imports and collects everything, and holds about half a gigabyte.
MOST_PROCESSES = 16


def quota() -> float:
    """Processors that a container may use by its quota of time; infinite without one."""
    try:
        most, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return float(most) / float(period)  # "max" is no number
    except (OSError, ValueError):
        return math.inf


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    from warpladder.machine import cores

    return max(1, min(cores(), MOST_PROCESSES, math.ceil(min(quota(), MOST_PROCESSES))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "load":
        return None  # somebody asked for another way
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

    return ByFile(config, log)
