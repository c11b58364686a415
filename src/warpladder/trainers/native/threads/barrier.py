"""Barrier of threads inside compiled code, which spins and then sleeps, with its atomics and clocks.

An operating system's barrier costs several microseconds, a step of a small net a few dozen: so threads spin. A thread
that waits longer than a share of a step waits for a thread without a core, and by spinning withholds a core from it. So
it sleeps. The time without a core is summed, so that fewer threads run if there are too few cores (workers.py).
"""

from __future__ import annotations

import platform
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..compiler.emit import I64, emitted
from ..program.job import ARRIVED, GENERATION, IMPATIENCE, SLEEPERS, SLEPT, WAITS, WOKEN

SPINS = 4000  # about 100 us of waiting before a thread sleeps
LEAST = 250  # least of these: they halve with every wait that ends in sleep, and grow again with every other wait
NAP = 1_000_000  # nanoseconds of one sleep, at most

#: clocks: of the machine, and of the time that this thread has had a core
WALL, ON_CORE = "CLOCK_MONOTONIC", "CLOCK_THREAD_CPUTIME_ID"

FUTEX = {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98}  # the system call's number, by processor
WAIT, WAKE = 128, 129  # its operations, among the threads of one process


@emitted(types.int64)
def atomic_add(builder, array, index, value):  # type: ignore[no-untyped-def]
    """Add to array[index] (int64) atomically; returns the number before."""
    return builder.atomic_rmw("add", builder.gep(array, [index]), value, "seq_cst")


@emitted(types.int64)
def atomic_load(builder, array, index):  # type: ignore[no-untyped-def]
    """Load array[index] (int64) atomically with acquire order: all earlier stores of its writer are visible."""
    return builder.load_atomic(builder.gep(array, [index]), "acquire", 8)


@emitted()
def atomic_store(builder, array, index, value):  # type: ignore[no-untyped-def]
    """Store array[index] = value (int64) atomically with release order, after all earlier stores of this thread."""
    builder.store_atomic(value, builder.gep(array, [index]), "release", 8)


@emitted()
def relax(builder):  # type: ignore[no-untyped-def]
    """Hint to the core that this is a waiting loop."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
    elif machine in ("aarch64", "arm64"):
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.aarch64.hint"), [ir.IntType(32)(1)])


def _clock(name: str) -> Any:
    """Intrinsic that returns nanoseconds on the clock of this name; always 0 on Windows, which has no such function."""
    which = getattr(time, name, None)

    @emitted(types.int64)
    def now(builder):  # type: ignore[no-untyped-def]
        if which is None:
            return I64(0)
        i32 = ir.IntType(32)
        kind = ir.ArrayType(I64, 2)  # seconds and nanoseconds
        place = cgutils.alloca_once(builder, kind)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(i32, [i32, kind.as_pointer()]), "clock_gettime"
        )
        builder.call(function, [i32(which), place])
        seconds, rest = (builder.load(builder.gep(place, [i32(0), i32(i)])) for i in range(2))
        return builder.add(builder.mul(seconds, I64(1_000_000_000)), rest)

    return now


wall_clock, own_clock = _clock(WALL), _clock(ON_CORE)


@emitted()
def sleep(builder, array, index, value):  # type: ignore[no-untyped-def]
    """Sleep while array[index] (int64) is `value`, until `wake` or a millisecond; less on systems but Linux."""
    if number := _futex():
        seconds = ir.Constant(ir.ArrayType(I64, 2), [0, NAP])  # and nanoseconds
        length = cgutils.alloca_once_value(builder, seconds)
        _call(builder, "syscall", I64(number), _word(builder, array, index), I64(WAIT), value, length)
    elif platform.system() != "Windows":
        _call(builder, "usleep", ir.IntType(32)(50))


@emitted()
def wake(builder, array, index):  # type: ignore[no-untyped-def]
    """Wake all threads that `sleep` on array[index]; on systems other than Linux they wake by themselves."""
    if number := _futex():
        _call(builder, "syscall", I64(number), _word(builder, array, index), I64(WAKE), I64(2**31 - 1))


def _futex() -> int | None:
    """Number of Linux's futex system call, by which a thread sleeps on a number in memory; None on other systems."""
    return FUTEX.get(platform.machine().lower()) if platform.system() == "Linux" else None


def _word(builder: ir.IRBuilder, array: ir.Value, index: ir.Value) -> ir.Value:
    """Address of an element's low half: the kernel compares 32 bits, which little-endian processors store first."""
    return builder.bitcast(builder.gep(array, [index]), ir.IntType(32).as_pointer())


def _call(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> None:
    """Call a C function with one leading number and variadic others, which returns a number of the same width."""
    kind = ir.FunctionType(arguments[0].type, [arguments[0].type], var_arg=len(arguments) > 1)
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def barrier(sync, threads):  # type: ignore[no-untyped-def]
    """Wait until all threads have arrived. sync : (16,) int64, initially zeros, shared by the threads only for this."""
    if threads > 1:
        generation = atomic_load(sync, GENERATION)
        if atomic_add(sync, ARRIVED, 1) == threads - 1:
            atomic_store(sync, ARRIVED, 0)
            if atomic_load(sync, SLEEPERS) > 0:
                atomic_store(sync, WOKEN, wall_clock())
            atomic_store(sync, GENERATION, generation + 1)
            if atomic_load(sync, SLEEPERS) > 0:
                wake(sync, GENERATION)
        else:
            impatience = atomic_load(sync, IMPATIENCE)
            spins = impatience
            while spins < SPINS and atomic_load(sync, GENERATION) == generation:
                relax()
                spins += 1
            if atomic_load(sync, GENERATION) != generation:
                if impatience > 0:
                    atomic_store(sync, IMPATIENCE, impatience - impatience // 8 - 1)
            else:
                atomic_store(sync, IMPATIENCE, min(SPINS - LEAST, (SPINS + impatience) // 2))
                began = wall_clock()
                atomic_add(sync, SLEEPERS, 1)
                # A waker that looks for sleepers just before this one is counted leaves it asleep: hence a nap and no
                # long sleep, which spares every barrier the fence that would order the two.
                while atomic_load(sync, GENERATION) == generation:
                    sleep(sync, GENERATION, generation)
                atomic_add(sync, SLEEPERS, -1)
                atomic_add(sync, WAITS, 1)
                # time since the wake-up, in which it waited for a core; a waker that found it awake left an older time
                atomic_add(sync, SLEPT, max(atomic_load(sync, WOKEN) - began, 0))
