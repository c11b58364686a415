"""What threads inside compiled code need to wait for each other: atomics, and a barrier that spins.

A barrier of the operating system costs several microseconds, a step of a small net a few
dozen: so threads spin, and give the core away only when the wait turns out long.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...ops.compiled import compiled
from .emit import intrinsic

SPINS = 4000  # about 100 us of waiting before the core is offered to others
_GENERATION = 8  # a cache line away from the counter


def _element(context, builder, signature, values):  # type: ignore[no-untyped-def]
    return builder.gep(context.make_array(signature.args[0])(context, builder, values[0]).data, [values[1]])


@intrinsic
def atomic_add(typing, array, index, value):  # type: ignore[no-untyped-def]
    """Add to array[index] (int64) in one indivisible step; returns what it held before."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("add", _element(context, builder, signature, values), values[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), emit


@intrinsic
def atomic_load(typing, array, index):  # type: ignore[no-untyped-def]
    """array[index] (int64), read afresh; what its writer stored before is visible after."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return builder.load_atomic(_element(context, builder, signature, values), "acquire", 8)

    return types.int64(array, types.int64), emit


@intrinsic
def atomic_store(typing, array, index, value):  # type: ignore[no-untyped-def]
    """array[index] = value (int64), after everything this thread stored before."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        builder.store_atomic(values[2], _element(context, builder, signature, values), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), emit


@intrinsic
def relax(typing):  # type: ignore[no-untyped-def]
    """Tell the core that this is a waiting loop."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        machine = platform.machine().lower()
        if machine in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        elif machine in ("aarch64", "arm64"):
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.aarch64.hint"), [ir.IntType(32)(1)])
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def give_way(typing):  # type: ignore[no-untyped-def]
    """Offer the core to other threads (POSIX sched_yield; on Windows it goes on spinning)."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        if platform.system() != "Windows":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), emit


@compiled(nogil=True)
def barrier(sync, threads):  # type: ignore[no-untyped-def]
    """Wait until all threads are here. sync: (16,) int64, zeros at first, shared by them and used for nothing else."""
    if threads == 1:
        return
    generation = atomic_load(sync, _GENERATION)
    if atomic_add(sync, 0, 1) == threads - 1:
        atomic_store(sync, 0, 0)
        atomic_store(sync, _GENERATION, generation + 1)
        return
    spins = 0
    while atomic_load(sync, _GENERATION) == generation:
        relax()
        spins += 1
        if spins > SPINS:
            give_way()
