"""Facts about this machine that are stored with results: processor, memory, measured speed, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from .cores import cores as cores
from .memory import memory
from .speed import bandwidth, llvm_host
from .speed import fma_peak as fma_peak

#: Packages whose versions affect times.
PACKAGES = (
    "warpladder", "numpy", "numba", "llvmlite", "scikit-learn", "scipy", "torch", "jax", "cupy-cuda13x", "cupy-cuda12x",
    "cuda-core", "cuda-bindings", "nvmath-python", "nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cudnn-cu13",
    "nvidia-cudnn-cu12", "nvidia-cudnn-frontend", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12",
)  # fmt: skip

#: Reported instruction sets, by LLVM's names.
FEATURES = ("avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bf16", "amx-tile", "neon", "dotprod", "sve", "sve2")


def facts(threads: int | None = None) -> dict[str, Any]:
    """Facts of this machine by the field names of `results.Machine`, measured in a second on all cores or on
    `threads` threads.
    """
    threads = threads or cores()
    target, features = llvm_host()
    commit, dirty = _checkout()
    return {
        "cpu": _cpu(), "target": target, "cores": cores(), "threads": threads,
        "features": tuple(name for name in FEATURES if name in features), "memory_bytes": memory(),
        "fma_peak": fma_peak(threads), "bandwidth": bandwidth(threads),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}", "packages": _versions(),
        "commit": commit, "dirty": dirty,
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }  # fmt: skip


def host() -> tuple[str, tuple[str, ...]]:
    """LLVM's name of the processor, and all of its features that LLVM knows."""
    target, features = llvm_host()
    return target, tuple(sorted(features))


def busy_seconds() -> float | None:
    """Processor seconds used on this machine since its start, by all processes and other virtual machines, to 0.01
    s; or None.
    """
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Processor seconds of this process and all its children, living and ended ones."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system + _living(os.getpid())


def _living(parent: int) -> float:
    """Processor seconds of a process's living descendants; 0 if the system does not list them."""
    total = 0.0
    try:
        for task in os.listdir(f"/proc/{parent}/task"):
            for child in map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split()):
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + _living(child)
    except (OSError, ValueError, IndexError):  # it has ended meanwhile, or this is no Linux
        return total
    return total


def _cpu() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _checkout() -> tuple[str | None, bool | None]:
    """Commit of this package's checkout, and True if the package has changes; (None, None) without a checkout."""
    folder = Path(__file__).resolve().parents[1]
    if _output("git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None  # no checkout, or one of another project
    # without a lock of the index, which a killed process would not release
    changes = _output("git", "--no-optional-locks", "-C", str(folder), "status", "--porcelain", "--", ".")
    return _output("git", "-C", str(folder), "rev-parse", "HEAD"), None if changes is None else bool(changes)


def _output(*command: str) -> str | None:
    """Output of a program, or None if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()
