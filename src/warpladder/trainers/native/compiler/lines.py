"""Lines of numbers turned into columns, and added up, in vector registers."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from .emit import I64, INTEGERS, counted, intrinsic, load, pointers, store
from .vectors import LANES


@intrinsic
def turned(typing, source, at, step, target, to, to_step):  # type: ignore[no-untyped-def]
    """target[to + j * to_step + i] = source[at + i * step + j] for i, j < LANES: a square of numbers, turned in
    registers.
    """
    i64 = types.int64
    signature = types.void(source, i64, i64, target, i64, i64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        source, at, step, target, to, to_step = pointers(context, builder, signature, values)
        lines = [load(builder, source, builder.add(at, builder.mul(step, I64(i)))) for i in range(LANES)]
        half = LANES // 2
        while half:  # of each square of 2 * half lines, the upper right and the lower left quarter change places
            low = ir.Constant(INTEGERS, [j if not j & half else LANES + j - half for j in range(LANES)])
            high = ir.Constant(INTEGERS, [j + half if not j & half else LANES + j for j in range(LANES)])
            for i in range(LANES):
                if not i & half:
                    a, b = lines[i], lines[i + half]
                    lines[i], lines[i + half] = builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high)
            half //= 2
        for j, line in enumerate(lines):
            store(builder, target, builder.add(to, builder.mul(to_step, I64(j))), line)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def add_up(typing, source, at, step, count, target, to):  # type: ignore[no-untyped-def]
    """target[to + i] += the sum over k < count of source[at + k * step + i], for i < LANES, one k after the other."""
    i64 = types.int64

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        source, at, step, count, target, to = pointers(context, builder, signature, values)
        k, (total,), close = counted(builder, count, [load(builder, target, to)])
        close([builder.fadd(total, load(builder, source, builder.add(at, builder.mul(k, step))))])
        store(builder, target, to, total)
        return context.get_dummy_value()

    return types.void(source, i64, i64, i64, target, i64), emit
