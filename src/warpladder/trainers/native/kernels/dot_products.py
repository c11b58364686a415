"""Products of rows with rows, for layers with few outputs: vectors run along the inputs, without transposition.

An output is a vector of sums, whose lanes must be added. This is done for LANES outputs together::

    a    a0 a1 a2 a3     halves    a0+a2 a1+a3 b0+b2 b1+b3     halves again    a    b    c    d
    b    b0 b1 b2 b3      side     c0+c2 c1+c3 d0+d2 d1+d3
    c    ...               by
    d    ...              side

so that an output takes two shuffles and one addition, not log2(LANES) of each, and outputs end as neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ..compiler.emit import I64, INTEGERS, VECTOR, counted, emitted, first_lanes, fma, load, maximum, splat, zeros
from ..compiler.vectors import LANES


def across(builder: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Vector of the lane sums of up to LANES vectors, by adding halves; zeros after the last."""
    size = LANES
    while size > 1:
        half = size // 2
        low = [start + i for start in range(0, 2 * LANES, size) for i in range(half)]
        pairs = zip(vectors[::2], [*vectors[1::2], zeros()], strict=False)  # a last one alone is paired with zeros
        vectors = [_halves(builder, a, b, low, half) for a, b in pairs]
        size = half
    return vectors[0]


def _halves(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, low: list[int], half: int) -> ir.Value:
    first = builder.shuffle_vector(a, b, ir.Constant(INTEGERS, low))
    return builder.fadd(first, builder.shuffle_vector(a, b, ir.Constant(INTEGERS, [i + half for i in low])))


def store_first(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, value: ir.Value, count: ir.Value) -> None:
    """Store the first `count` lanes of a vector, at most all."""
    mask = first_lanes(builder, count)
    pointer = builder.bitcast(builder.gep(base, [index]), VECTOR.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, pointer.type, ir.IntType(32), mask.type])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{LANES}f32.p0")
    builder.call(function, [value, pointer, ir.IntType(32)(4), mask])


def row_of_floats(builder: ir.IRBuilder, array: ir.Value, at: ir.Value) -> ir.Value:
    """Pointer to element `at` of an array of floats."""
    return builder.gep(array, [at])


def make_dot(
    rows: int, columns: int, row: Callable[..., ir.Value] = row_of_floats, read: Callable[..., ir.Value] = load
) -> Any:
    """Intrinsic of dot products: y[m, n] = max(floor, scale * sum over k < length of a_m[k] * b[at[rows + n] + k] +
    bias[n]).

    a_m : row of a that `row` finds at at[m]; `read` loads LANES of its numbers as floats. length : multiple of LANES.
    bias : (array, index). limits : (scale, floor), -inf for no floor; a NaN stays.
    result : (array, index, count). y[m, 0] is array[index + at[rows + columns + m]]; n < count.
    """

    @emitted()
    def dot(builder, a, b, at, length, bias, limits, result):  # type: ignore[no-untyped-def]
        (bias, bias_at), (scale, floor), (target, to, count) = bias, limits, result
        where = [builder.load(builder.gep(at, [I64(i)])) for i in range(rows + columns + rows)]
        a_row = [row(builder, a, where[m]) for m in range(rows)]
        b_row = [builder.gep(b, [where[rows + n]]) for n in range(columns)]
        step, sums, close = counted(builder, builder.sdiv(length, I64(LANES)), [zeros()] * (rows * columns))
        k = builder.mul(step, I64(LANES))
        left = [read(builder, each, k) for each in a_row]
        new = list(sums)
        for n in range(columns):  # one right factor at a time: with all of them registers would not do
            right = load(builder, b_row[n], k)
            for m in range(rows):
                new[m * columns + n] = fma(builder, left[m], right, sums[m * columns + n])
        close(new)
        for n in range(0, columns, LANES):
            for m in range(rows):
                value = across(builder, sums[m * columns + n : m * columns + min(n + LANES, columns)])
                biases = load(builder, bias, builder.add(bias_at, I64(n)))
                value = builder.fadd(builder.fmul(value, splat(builder, scale)), biases)
                value = maximum(builder, value, splat(builder, floor))
                place = builder.add(builder.add(to, where[rows + columns + m]), I64(n))
                store_first(builder, target, place, value, builder.sub(count, I64(n)))

    return dot
