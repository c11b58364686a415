"""Measured speed of the processor: peak of multiply-adds (FLOP/s) and memory bandwidth (bytes/s)."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from time import perf_counter

import numpy as np

from .cores import cores

#: Seconds of one measurement: less than a scheduler's time slice, so that some are undisturbed on a busy machine.
BURST = 5e-4
BURSTS = 24


def fma_peak(threads: int | None = None, precision: str = "fp32") -> float:
    """Measured FLOP/s, in fp32 or fp64, of threads that only multiply and add in registers.

    Each thread repeats bursts of half a millisecond, and its fastest burst is used: an interrupted burst is slower, and
    none is faster than the core.
    """
    multiply_add, flops = _kernel(precision)
    threads = threads or cores()
    rounds = 20_000
    rounds = max(1, int(rounds * BURST / _best(lambda: multiply_add(rounds), 1)))
    return threads * rounds * flops / _mean_best(lambda _: multiply_add(rounds), threads)


def bandwidth(threads: int | None = None, size: int = 96 << 20) -> float:
    """Measured bytes/s, reads plus writes, of threads that each copy a part of an array of `size` bytes."""
    threads = threads or cores()
    source = np.ones(size // threads * threads, np.uint8).reshape(threads, -1)
    target = np.zeros_like(source)  # touched, so that its pages are mapped before the timing
    return 2 * source.size / threads * threads / _mean_best(lambda i: np.copyto(target[i], source[i]), threads, 5)


def _best(work: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def _mean_best(work: Callable[[int], object], threads: int, times: int = BURSTS) -> float:
    """Harmonic mean over the threads of each thread's fastest time of `work(i)`, while all threads work."""
    barrier = threading.Barrier(threads)
    found = [0.0] * threads

    def measure(i: int) -> None:
        work(i)  # warm
        barrier.wait()
        found[i] = _best(lambda: work(i), times)

    workers = [threading.Thread(target=measure, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads / sum(1 / seconds for seconds in found)


@cache
def _kernel(precision: str) -> tuple[Callable[[int], float], int]:
    """Compiled function of a number of rounds, and the FLOPs of one round.

    Enough independent accumulators hide the latency of a multiply-add (4 cycles on 2 pipes, or on 4 narrower ones)
    within the registers. Calls release the GIL.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target, features = llvm_host()
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
    """LLVM IR of x = x * a + b over vectors of `lanes` numbers, floats or doubles, for `chains` vectors in a round."""
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
def llvm_host() -> tuple[str, frozenset[str]]:
    """LLVM's name of the processor, and its features."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), frozenset(
        name for name, present in llvm.get_host_cpu_features().items() if present
    )
