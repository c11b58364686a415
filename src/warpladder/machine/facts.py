"""Facts about this machine, measured where a figure rests on them: its peak of multiply-adds and its memory bandwidth."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

#: Packages whose versions bear on a time.
PACKAGES = ("warpladder", "numpy", "numba", "llvmlite", "scikit-learn", "scipy", "torch", "jax")

#: Instruction sets worth telling, by LLVM's names.
FEATURES = ("avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bf16", "amx-tile", "neon", "dotprod", "sve", "sve2")

CGROUP = Path("/sys/fs/cgroup")  # where Linux tells a container's limits
CGROUPS_OF_PROCESS = Path("/proc/self/cgroup")  # and in which groups this process is

# seconds that one measurement takes: shorter than a scheduler's slice, so that some go undisturbed on a busy machine
BURST = 5e-4
BURSTS = 24


def cores() -> int:
    """Cores that this process may use."""
    return counted_cores()


def counted_cores() -> int:
    """Cores that this process may be sent to, and no more than a container's share of their time is worth."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows bind no process to cores
        count = os.cpu_count() or 1
    return max(1, min(count, math.ceil(min(quota(), count))))


def quota() -> float:
    """Cores that this process's containers let it keep busy: the least `cpu.max` (cgroup v2) or `cpu.cfs_quota_us` (v1)
    around it; else infinite.

    Three tenths of a core's time come to 0.3.
    """
    return min((_limit(folder) for folder in _cgroups()), default=math.inf)


def _cgroups() -> Iterator[Path]:
    """The folders of the groups that this process belongs to, innermost first, as far as they can be seen; inside a
    container its own is often the root.
    """
    try:
        lines = CGROUPS_OF_PROCESS.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    for line in [
        *lines,
        "0::/",
        ":cpu:/",
    ]:  # what a container sees is mounted at the root, whatever its group is called outside
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (CGROUP / "cpu", CGROUP / "cpu,cpuacct") if controllers else (CGROUP, CGROUP / "unified"):
            inside = root / path.lstrip("/")
            yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(root))


def _limit(folder: Path) -> float:
    """Cores that one group's limit of processor time is worth; infinite where it has none."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            most, period = (int(word) for name in names for word in (folder / name).read_text(encoding="ascii").split())
        except (OSError, ValueError):  # no such file; or "max", which is no number
            continue
        if most > 0 and period > 0:  # -1 is cgroup v1's "no limit"
            return most / period
    return math.inf


def facts(threads: int | None = None) -> dict[str, Any]:
    """What this machine is and can do, by the field names of `results.Machine`; takes about a second of all its cores.

    Parameters
    ----------
    threads : int or None
        Threads that the peak and the bandwidth are measured with; None takes every core this process may use.
    """
    threads = threads or cores()
    target, features = _llvm_host()
    commit, dirty = _checkout()
    return {
        "cpu": _cpu(),
        "target": target,
        "cores": cores(),
        "threads": threads,
        "features": tuple(name for name in FEATURES if name in features),
        "memory_bytes": memory(),
        "fma_peak": fma_peak(threads),
        "bandwidth": bandwidth(threads),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": _versions(),
        "commit": commit,
        "dirty": dirty,
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def host() -> tuple[str, tuple[str, ...]]:
    """LLVM's name of the processor's kind of core, and every feature of it that LLVM knows."""
    target, features = _llvm_host()
    return target, tuple(sorted(features))


def busy_seconds() -> float | None:
    """Processor time that all processes together have used since the machine started; None where the system does not
    tell.

    Counted in ticks of a hundredth of a second; what a hypervisor gave to other machines counts too.
    """
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def fma_peak(threads: int | None = None, precision: str = "fp32") -> float:
    """Measured FLOP/s, in fp32 or fp64, of threads that do nothing but multiply and add in registers.

    Each thread repeats bursts of half a millisecond while the others do the same, and its best one
    counts: a burst that another process interrupts is slower, none can be faster than the core.
    """
    multiply_add, flops = _kernel(precision)
    threads = threads or cores()
    rounds = 20_000
    rounds = max(1, int(rounds * BURST / _best(lambda: multiply_add(rounds), 1)))
    return threads * rounds * flops / _mean_best(lambda _: multiply_add(rounds), threads)


def bandwidth(threads: int | None = None, size: int = 96 << 20) -> float:
    """Measured bytes/s, reads plus writes, of threads that each copy their part of an array of `size` bytes, larger
    than the caches.
    """
    threads = threads or cores()
    source = np.ones(size // threads * threads, np.uint8).reshape(threads, -1)
    target = np.zeros_like(source)  # touched, so that no page is first mapped while the clock runs
    return 2 * source.size / threads * threads / _mean_best(lambda i: np.copyto(target[i], source[i]), threads, 5)


def _best(work: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def _mean_best(work: Callable[[int], object], threads: int, times: int = BURSTS) -> float:
    """Harmonic mean over the threads of each one's best time for its `work(i)`, while all of them work."""
    gate = threading.Barrier(threads)
    found = [0.0] * threads

    def measure(i: int) -> None:
        work(i)  # warm
        gate.wait()
        found[i] = _best(lambda: work(i), times)

    workers = [threading.Thread(target=measure, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads / sum(1 / seconds for seconds in found)


@cache
def _kernel(precision: str) -> tuple[Callable[[int], float], int]:
    """A compiled function of a number of rounds, and the FLOPs of one round; its vectors hold half as many numbers in
    fp64 as in fp32.

    The accumulators are independent of each other and as many as hide the latency of a multiply-add
    (4 cycles on 2 pipes, or on 4 narrower ones) without leaving the registers. Calls release the GIL.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target, features = _llvm_host()
    lanes, chains = 4, 12
    if "avx512f" in features:
        lanes, chains = 16, 24
    elif "avx" in features:
        lanes = 8
    elif "neon" in features:
        chains = 24
    number, real, lanes = (
        ("double", ctypes.c_double, lanes // 2) if precision == "fp64" else ("float", ctypes.c_float, lanes)
    )
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=target, features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_assembly(lanes, chains, number)), machine)
    engine.finalize_object()
    compiled = ctypes.CFUNCTYPE(real, ctypes.c_int64, real, real)(engine.get_function_address("multiply_add"))

    def multiply_add(rounds: int, _engine: object = engine) -> float:  # the code lives as long as its engine
        return float(compiled(rounds, 0.5, 0.25))

    return multiply_add, 2 * lanes * chains


def _assembly(lanes: int, chains: int, number: str) -> str:
    """LLVM IR of x = x * a + b over vectors of `lanes` numbers, floats or doubles, `chains` of them in a round."""
    vector, short = f"<{lanes} x {number}>", {"float": "f32", "double": "f64"}[number]
    lines = [
        f"declare {vector} @llvm.fmuladd.v{lanes}{short}({vector}, {vector}, {vector})",
        f"define {number} @multiply_add(i64 %rounds, {number} %a, {number} %b) {{",
        "start:",
    ]
    for name in "ab":
        lines.append(f"  %{name}.0 = insertelement {vector} poison, {number} %{name}, i32 0")
        lines.append(
            f"  %{name}.all = shufflevector {vector} %{name}.0, {vector} poison, <{lanes} x i32> zeroinitializer"
        )
    lines += ["  br label %round", "round:", "  %i = phi i64 [0, %start], [%next, %round]"]
    lines += [f"  %x{k} = phi {vector} [%a.all, %start], [%y{k}, %round]" for k in range(chains)]
    lines += [
        f"  %y{k} = call {vector} @llvm.fmuladd.v{lanes}{short}({vector} %x{k}, {vector} %a.all, {vector} %b.all)"
        for k in range(chains)
    ]
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %rounds",
        "  br i1 %more, label %round, label %end",
        "end:",
    ]
    lines += [f"  %s{k} = fadd {vector} {'%y0' if k == 1 else f'%s{k - 1}'}, %y{k}" for k in range(1, chains)]
    lines += [f"  %sum = extractelement {vector} %s{chains - 1}, i32 0", f"  ret {number} %sum", "}"]
    return "\n".join(lines)


@cache
def _llvm_host() -> tuple[str, frozenset[str]]:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), frozenset(
        name for name, present in llvm.get_host_cpu_features().items() if present
    )


def _cpu() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine()


def memory() -> int | None:
    """Bytes of main memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def free_memory() -> int | None:
    """Bytes of main memory that this process could take now without others being swapped out; None where the system
    does not tell.

    Less than `memory`: what others hold is left out, and a container's limit counts.
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
            free = min(
                free, left + int(stat["inactive_file"])
            )  # copies of files, which the system gives up where memory is wanted
        except (OSError, ValueError, KeyError):  # there is none, or it is "max"
            continue
    return max(free, 0)


def resident_peak() -> int:
    """Bytes of this process's largest resident set so far.

    On Linux the kernel's VmHWM: `ru_maxrss` will not do there, because a child inherits its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) << 10
    import resource  # no Windows has it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _checkout() -> tuple[str | None, bool | None]:
    """Commit of the checkout that this package runs from, and whether the package was changed since; None where it is
    installed otherwise.
    """
    folder = Path(__file__).resolve().parents[1]
    if _output("git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None  # no checkout, or one that merely has the package lying inside it
    # a look must not take the lock of the index: killed, or on a full disk, it would leave it locked
    changes = _output("git", "--no-optional-locks", "-C", str(folder), "status", "--porcelain", "--", ".")
    return _output("git", "-C", str(folder), "rev-parse", "HEAD"), None if changes is None else bool(changes)


def _output(*command: str) -> str | None:
    """What a program prints, or None where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()
