"""The processors of a CPU benchmark: their kind, the cores that they have at this moment, the quiet ones, and the time
that other programs take of them.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np

from warpladder.machine import facts as machine
from warpladder.trainers.native.compiler.vectors import LANES

#: processors more than are needed, whose combinations are tried: the speed of one alone does not show two on one core
CANDIDATES = 3

#: lines of lscpu that describe the machine of a measurement
LSCPU = (
    "Architecture", "Vendor ID", "Model name", "CPU family", "Model", "Stepping", "CPU(s)", "Thread(s) per core",
    "Core(s) per socket", "Socket(s)", "NUMA node(s)", "Hypervisor vendor", "CPU max MHz", "L1d cache", "L2 cache",
    "L3 cache",
)  # fmt: skip


def processor(facts: dict[str, Any]) -> dict[str, Any]:
    """The kind of processor: a name for files, its widest vectors, and lscpu's main lines if there is an lscpu."""
    bits, vectors = next(
        (
            found
            for feature, *found in ((("avx512f"), 512, "AVX-512"), ("avx2", 256, "AVX2"), ("neon", 128, "NEON"))
            if feature in facts["features"]
        ),
        (128, "128 bits"),
    )
    try:
        printed = subprocess.run(
            ["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
        ).stdout
    except (OSError, subprocess.SubprocessError):  # other systems
        printed = ""
    lines = dict(line.strip().split(":", 1) for line in printed.splitlines() if ":" in line)
    known = {name: lines[name].strip() for name in LSCPU if name in lines}
    kind = re.sub(r"[^a-z0-9]+", "-", f"{facts['target']} {vectors} {facts['threads']} threads".lower()).strip("-")
    return {
        "kind": kind,
        "vectors": vectors,
        "vector_bits": bits,
        "lanes": LANES,
        "cores": physical_cores(),
        "lscpu": known,
    }


def physical_cores() -> int | None:
    """Number of cores of the processors that this process may use: fewer than these if a core runs two threads; None if
    lscpu does not report it.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    try:
        printed = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET"], capture_output=True, text=True, check=True).stdout
        rows = [
            tuple(int(word) for word in line.split(",")) for line in printed.splitlines() if line and line[0] != "#"
        ]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return len({(core, socket) for processor, core, socket in rows if processor in os.sched_getaffinity(0)}) or None


def cores_now(threads: int) -> float:
    """Number of cores that so many threads have at this moment, by square roots: two threads of a core share that unit.

    A hypervisor may put two of a guest's processors on one core for a while, and the guest cannot see it.
    """
    numbers = [np.full(1 << 16, 2.0, np.float32) for _ in range(threads)]
    out = [np.empty_like(each) for each in numbers]

    def roots(number: int) -> float:
        began = time.perf_counter()
        for _ in range(100):
            np.sqrt(numbers[number], out=out[number])
        return time.perf_counter() - began

    with ThreadPoolExecutor(threads) as pool:
        alone, together = (
            statistics.median(max(pool.map(roots, range(count))) for _ in range(3)) for count in (1, threads)
        )
    return threads * alone / together


@contextmanager
def pinned_to(processors: set[int]) -> Iterator[None]:
    """Context in which all that this thread starts, programs too, is pinned to these processors."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def rates() -> dict[int, float]:
    """FLOP/s of each processor that this process may use, one after the other, the lesser of two measurements."""
    found: dict[int, float] = {}
    for _ in range(2):
        for number in sorted(os.sched_getaffinity(0)):
            with pinned_to({number}):
                found[number] = min(found.get(number, float("inf")), machine.fma_peak(1))
    return found


def quiet(count: int) -> tuple[set[int], dict[int, float]]:
    """Find the processors that multiply fastest together at this moment, and FLOP/s of each alone.

    If a host has other guests, some of a guest's processors share a core with one of theirs, others every minute.
    """
    alone = rates()
    best = sorted(alone, key=lambda number: alone[number])[-count - CANDIDATES :]

    def together(numbers: tuple[int, ...]) -> float:
        with pinned_to(set(numbers)):
            return machine.fma_peak(count)

    return set(max(combinations(best, count), key=together)), alone


def busy_others(since: float | None, own: float, wall: float) -> float | None:
    """Share of all processors' time that other programs have used. since, own : from `busy_now`, `wall` seconds ago."""
    if since is None:
        return None
    busy, mine = busy_now()
    assert busy is not None
    return max(0.0, (busy - since - (mine - own)) / (wall * (os.cpu_count() or 1)))


def busy_now() -> tuple[float | None, float]:
    """Processor time so far of the whole machine, and of this process with the ones that it has waited for."""
    times = os.times()
    return machine.busy_seconds(), times.user + times.system + times.children_user + times.children_system
