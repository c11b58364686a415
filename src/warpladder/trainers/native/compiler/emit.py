"""Vector instructions as LLVM code, of which the kernels' intrinsics are made.

Each function emits code at the builder's position, and runs none. Two shared intrinsics, `transposed` and
`add_up`, are at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from .vectors import LANES

#: decorator of a function that emits its own code; with numba's stubs callers would have to pass its typing context
intrinsic: Any = extending.intrinsic

F32 = ir.FloatType()
I64 = ir.IntType(64)
VECTOR = ir.VectorType(F32, LANES)
INTEGERS = ir.VectorType(ir.IntType(32), LANES)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    kind = "f32" if a.type == F32 else f"v{LANES}f32"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(a.type, [a.type] * 3), f"llvm.fmuladd.{kind}"
    )
    return builder.call(function, [a, b, c])


def splat(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    empty = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    one = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, empty, ir.Constant(INTEGERS, [0] * LANES))


def load(builder: ir.IRBuilder, base: ir.Value, index: ir.Value) -> ir.Value:
    pointer = builder.bitcast(builder.gep(base, [index]), VECTOR.as_pointer())
    return builder.load(pointer, align=4)


def store(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, value: ir.Value) -> None:
    pointer = builder.bitcast(builder.gep(base, [index]), VECTOR.as_pointer())
    builder.store(value, pointer, align=4)


def maximum(builder: ir.IRBuilder, value: ir.Value, other: ir.Value) -> ir.Value:
    """Maximum of two values; a NaN in `value` stays NaN, so that a ReLU does not hide a diverged net."""
    return builder.select(builder.fcmp_ordered("<", value, other), other, value)


def minimum(builder: ir.IRBuilder, value: ir.Value, other: ir.Value) -> ir.Value:
    """Minimum of two values; a NaN in `value` stays NaN."""
    return builder.select(builder.fcmp_ordered(">", value, other), other, value)


def zeros() -> ir.Constant:
    return ir.Constant(VECTOR, [0.0] * LANES)


def counted(  # type: ignore[no-untyped-def]
    builder: ir.IRBuilder, count: ir.Value, start: list[ir.Value], hidden: bool = False
):  # fmt: skip
    """Open a loop `for index in range(count)` that carries values in registers; returns index, carried, closer.

    hidden : True if LLVM must not know how often the loop runs: it then leaves a short loop as it is, and does not
    unroll it, which takes a second loop for what is left, and so a second jump that is predicted wrongly.
    """
    before = builder.block
    head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(I64)
    index.add_incoming(I64(0), before)
    carried = []
    for value in start:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        carried.append(phi)
    builder.cbranch(builder.icmp_signed("<", index, count), body, after)
    builder.position_at_end(body)
    here = opaque(builder, index) if hidden else index

    def close(values: list[ir.Value]) -> None:
        index.add_incoming(builder.add(here, I64(1)), builder.block)
        for phi, value in zip(carried, values, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    return here, carried, close


def opaque(builder: ir.IRBuilder, index: ir.Value) -> ir.Value:
    """Loop index, or a loop's sum of strides, as an int64 that LLVM cannot analyse.

    Otherwise LLVM converts `row + index * stride` to an advancing pointer, on AMD's cores one for each row of a tile:
    more than there are registers, so that most are read, advanced and written in memory at every step.
    """
    return builder.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [index], False)


def chosen(
    builder: ir.IRBuilder, which: ir.Value, cases: tuple[int, ...], values: Callable[[int], list[ir.Value]]
) -> list[ir.Value]:
    """Vectors that `values` emits for case `which` (int64), one of `cases`."""
    if len(cases) == 1:
        return values(cases[0])
    blocks = [builder.append_basic_block(f"case{case}") for case in cases]
    after = builder.append_basic_block("chosen")
    switch = builder.switch(which, blocks[-1])
    for case, block in zip(cases[:-1], blocks[:-1], strict=True):
        switch.add_case(I64(case), block)
    found = []
    for case, block in zip(cases, blocks, strict=True):
        builder.position_at_end(block)
        found.append((values(case), builder.block))
        builder.branch(after)
    builder.position_at_end(after)
    joined = []
    for each in range(len(found[0][0])):
        phi = builder.phi(VECTOR)
        for vectors, block in found:
            phi.add_incoming(vectors[each], block)
        joined.append(phi)
    return joined


def horizontal(
    builder: ir.IRBuilder, vector: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value] | None = None
) -> ir.Value:
    """Sum of a vector's lanes, halving the vector in a fixed order; `join` may replace the addition."""
    width = LANES
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        undefined = ir.Constant(vector.type, ir.Undefined)
        low = builder.shuffle_vector(vector, undefined, ir.Constant(index, list(range(width))))
        high = builder.shuffle_vector(vector, undefined, ir.Constant(index, list(range(width, 2 * width))))
        vector = join(low, high) if join else builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def first_lanes(builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
    """Mask of the lanes below count (int64)."""
    lanes = ir.Constant(INTEGERS, list(range(LANES)))
    return builder.icmp_signed("<", lanes, splat(builder, builder.trunc(count, ir.IntType(32))))


class Rows(NamedTuple):
    """2-D array in LLVM code: pointer to its data, and bytes from row to row."""

    data: ir.Value
    stride: ir.Value


def emitted(result: Any = types.void) -> Callable[[Callable[..., Any]], Any]:
    """Decorator for an intrinsic with result type `result`: a function (builder, *arguments) that emits its code.

    The function gets 1-D arrays as pointers, 2-D arrays as `Rows`, integers as int64, tuples as lists; it returns a
    tuple as a list.
    """

    def decorated(emit: Callable[..., Any]) -> Any:
        def call(typing: Any, *arguments: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                pairs = zip(signature.args, values, strict=True)
                found = emit(builder, *(_argument(context, builder, kind, value) for kind, value in pairs))
                if isinstance(result, types.BaseTuple):
                    return context.make_tuple(builder, result, found)
                return context.get_dummy_value() if result == types.void else found

            return result(*arguments), code

        # numba reads the names of the arguments
        call.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
        return intrinsic(call)

    return decorated


def _argument(context: Any, builder: ir.IRBuilder, kind: Any, value: ir.Value) -> Any:
    """Argument for a function decorated by `emitted`, converted from numba's value."""
    if isinstance(kind, types.BaseTuple):
        parts = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)  # type: ignore[attr-defined]
        return [_argument(context, builder, part, element) for part, element in parts]
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        return array.data if kind.ndim == 1 else Rows(array.data, cgutils.unpack_tuple(builder, array.strides)[0])
    return context.cast(builder, value, kind, types.int64) if isinstance(kind, types.Integer) else value


@emitted()
def transposed(builder, source, at, step, target, to, to_step):  # type: ignore[no-untyped-def]
    """Transpose a LANES x LANES square in registers: target[to + j * to_step + i] = source[at + i * step + j]."""
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


@emitted()
def add_up(builder, source, at, step, count, target, to):  # type: ignore[no-untyped-def]
    """Add LANES columns in order of k: target[to + i] += sum over k < count of source[at + k * step + i], i < LANES."""
    k, (total,), close = counted(builder, count, [load(builder, target, to)])
    close([builder.fadd(total, load(builder, source, builder.add(at, builder.mul(k, step))))])
    store(builder, target, to, total)
