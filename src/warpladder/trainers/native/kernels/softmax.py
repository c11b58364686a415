"""Softmax of a row in vector registers, with the gradient of the cross-entropy."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ..compiler.emit import (
    I64,
    INTEGERS,
    VECTOR,
    counted,
    emitted,
    first_lanes,
    fma,
    horizontal,
    load,
    maximum,
    minimum,
    splat,
    store,
    zeros,
)
from ..compiler.functions import inner
from ..compiler.vectors import LANES

LOWEST = ir.Constant(VECTOR, [float("-inf")] * LANES)


@inner
def softmax(source, at, count, label, share, target, to):  # type: ignore[no-untyped-def]
    """Write target[to + i] = (softmax of source[at : at + count] - (i == label)) * share, for i < count; then zeros, or
    NaN if the row has one, up to a whole vector.

    Returns the sum of exp(source[at + i] - largest), the largest, and its first index, or `count` if all are NaN.
    """
    if count <= LANES:
        return _in_a_vector(source, at, count, label, share, target, to)
    largest = _largest(source, at, count)
    total = _exponentials(source, at, largest, target, to, count)
    for i in range(LANES, count, LANES):
        total += _exponentials(source, at + i, largest, target, to + i, count - i)
    _multiply(target, to, count, share / total)
    target[to + label] -= share
    return total, largest, _first_equal(source, at, count, largest)


@emitted(types.Tuple((types.float32, types.float32, types.int64)))
def _in_a_vector(builder, source, at, count, label, share, target, to):  # type: ignore[no-untyped-def]
    """Compute `softmax` of up to LANES numbers in one register: half the time, and equal bits."""
    there = first_lanes(builder, count)
    x = load(builder, source, at)
    numbers = maximum(builder, LOWEST, builder.select(there, x, LOWEST))  # a NaN is not above the lowest
    largest = horizontal(builder, numbers, lambda low, high: maximum(builder, low, high))
    first = _first(builder, builder.and_(builder.fcmp_ordered("==", x, splat(builder, largest)), there), count)
    powers = builder.select(there, _exponential(builder, builder.fsub(x, splat(builder, largest))), zeros())
    total = horizontal(builder, powers)
    gradient = builder.fmul(powers, splat(builder, builder.fdiv(share, total)))
    lanes = ir.Constant(INTEGERS, list(range(LANES)))
    right = builder.icmp_signed("==", lanes, splat(builder, builder.trunc(label, ir.IntType(32))))
    store(builder, target, to, builder.select(right, builder.fsub(gradient, splat(builder, share)), gradient))
    return [total, largest, first]


@emitted(types.float32)
def _largest(builder, source, at, count):  # type: ignore[no-untyped-def]
    """Largest of source[at : at + count], count at least 1, without NaNs."""
    step, (best,), close = counted(builder, _vectors(builder, count), [LOWEST])
    k = builder.mul(step, I64(LANES))
    value = builder.select(
        first_lanes(builder, builder.sub(count, k)), load(builder, source, builder.add(at, k)), LOWEST
    )
    close([maximum(builder, best, value)])
    return horizontal(builder, best, lambda low, high: maximum(builder, low, high))


@emitted(types.float32)
def _exponentials(builder, source, source_at, shift, target, target_at, count):  # type: ignore[no-untyped-def]
    """Write target[i] = exp(source[i] - shift) for i < count, 0 up to LANES; returns their sum."""
    value = _exponential(builder, builder.fsub(load(builder, source, source_at), splat(builder, shift)))
    value = builder.select(first_lanes(builder, count), value, zeros())
    store(builder, target, target_at, value)
    return horizontal(builder, value)


@emitted()
def _multiply(builder, target, at, count, factor):  # type: ignore[no-untyped-def]
    """Multiply target[at + i] by factor for i < count and further, up to a whole vector."""
    step, _, close = counted(builder, _vectors(builder, count), [])
    place = builder.add(at, builder.mul(step, I64(LANES)))
    store(builder, target, place, builder.fmul(load(builder, target, place), splat(builder, factor)))
    close([])


@emitted(types.int64)
def _first_equal(builder, source, at, count, value):  # type: ignore[no-untyped-def]
    """First i < count with source[at + i] == value, or count."""
    wanted = splat(builder, value)
    step, (first,), close = counted(builder, _vectors(builder, count), [count])
    k = builder.mul(step, I64(LANES))
    same = builder.fcmp_ordered("==", load(builder, source, builder.add(at, k)), wanted)
    found = _first(builder, builder.and_(same, first_lanes(builder, builder.sub(count, k))), count)
    here = builder.add(k, found)
    close([builder.select(builder.icmp_signed("<", here, first), here, first)])
    return first


def _first(builder: ir.IRBuilder, mask: ir.Value, otherwise: ir.Value) -> ir.Value:
    """First set lane of a mask (int64), or `otherwise` if none is set, without an unpredictable branch."""
    bits = builder.zext(builder.bitcast(mask, ir.IntType(LANES)), I64)
    return builder.select(
        builder.icmp_signed("==", bits, I64(0)), otherwise, builder.cttz(bits, ir.Constant(ir.IntType(1), 0))
    )


def _vectors(builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
    """Number of vectors of `count` numbers (int64)."""
    return builder.sdiv(builder.add(count, I64(LANES - 1)), I64(LANES))


def _exponential(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Exponential exp(x), within 2 units in the last place for x in -87..88; 0 below: times a large
    number, what is only nearly 0 would be a gradient where there is none.

    exp(x) = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7, whose
    remainder is 1e-8; ln 2 in two parts so that r stays exact.
    """

    def constant(value: float) -> ir.Constant:
        return ir.Constant(VECTOR, [value] * LANES)

    is_lost = builder.fcmp_ordered("<", x, constant(-87.0))
    x = minimum(builder, maximum(builder, x, constant(-87.0)), constant(88.0))
    # adding and taking away 1.5 * 2^23 rounds to the nearest whole number
    magic = constant(12582912.0)
    n = builder.fsub(fma(builder, x, constant(1.4426950408889634), magic), magic)
    r = fma(builder, n, constant(-0.693359375), x)
    r = fma(builder, n, constant(2.12194440e-4), r)
    value = constant(1 / 5040)
    for coefficient in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        value = fma(builder, value, r, constant(coefficient))
    # a NaN has no whole part; the polynomial carries it on
    whole = builder.fptosi(builder.select(builder.fcmp_ordered("ord", n, n), n, zeros()), INTEGERS)
    power = builder.shl(builder.add(whole, ir.Constant(INTEGERS, [127] * LANES)), ir.Constant(INTEGERS, [23] * LANES))
    return builder.select(is_lost, zeros(), builder.fmul(value, builder.bitcast(power, VECTOR)))
