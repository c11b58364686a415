"""Pooling and its gradients on the native rung.

Max pooling takes LANES channels in a vector register, with an argmax index; 2 x 2 windows are unrolled. Average pooling
takes all channels of a pixel at a time.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ..compiler.emit import INTEGERS, counted, emitted, load, splat, store, zeros
from ..compiler.functions import inner
from ..compiler.vectors import LANES
from ..program.access import activations_of, int32s, own_samples, place, reader
from ..program.memory import ARGMAX
from ..program.operands import AveragePoolOperands, MaxPoolGradientOperands, MaxPoolOperands

_read, _read_gradient = reader(MaxPoolOperands), reader(MaxPoolGradientOperands)
_read_average = reader(AveragePoolOperands)


def _better(builder: ir.IRBuilder, new: ir.Value, number: ir.Value, old: ir.Value, argmax: ir.Value) -> list[ir.Value]:
    """Larger of new and old, and its number in the window: old stays among equals, and if it is a NaN."""
    # "unordered or greater", except that a NaN is never replaced
    larger = builder.and_(builder.fcmp_unordered(">", new, old), builder.fcmp_ordered("ord", old, old))
    return [builder.select(larger, new, old), builder.select(larger, splat(builder, number), argmax)]


def _indices_at(builder: ir.IRBuilder, argmax: ir.Value, at: ir.Value) -> ir.Value:
    """Pointer to LANES argmax indices."""
    return builder.bitcast(builder.gep(argmax, [at]), INTEGERS.as_pointer())


@emitted()
def _max(builder, window, result):  # type: ignore[no-untyped-def]
    """Write the largest of size x size pixels for LANES channels, and its number in the window: the first of equals, or
    the first NaN.

    window : (array, start, row stride, pixel stride, size). result : (array, index, argmax array, index).
    """
    (source, start, row_step, column_step, size), (target, out, argmax, argmax_at) = window, result
    zero = ir.Constant(INTEGERS, [0] * LANES)
    row, carried, close_rows = counted(builder, size, [load(builder, source, start), zero])
    line = builder.add(start, builder.mul(row, row_step))
    column, (old, index), close_columns = counted(builder, size, carried)
    new = load(builder, source, builder.add(line, builder.mul(column, column_step)))
    number = builder.trunc(builder.add(builder.mul(row, size), column), ir.IntType(32))
    close_columns(_better(builder, new, number, old, index))
    close_rows([old, index])
    store(builder, target, out, carried[0])
    builder.store(carried[1], _indices_at(builder, argmax, argmax_at), align=4)


def _four(builder: ir.IRBuilder, start: ir.Value, row_step: ir.Value, column_step: ir.Value) -> list[ir.Value]:
    """Indices of the four pixels of a 2 x 2 window."""
    below = builder.add(start, row_step)
    return [start, builder.add(start, column_step), below, builder.add(below, column_step)]


@emitted()
def _max_of_four(builder, window, result):  # type: ignore[no-untyped-def]
    """Write the largest of 2 x 2 pixels and its number in the window, as `_max`; window has no size."""
    (source, *steps), (target, out, argmax, argmax_at) = window, result
    first, *others = _four(builder, *steps)
    value, index = load(builder, source, first), ir.Constant(INTEGERS, [0] * LANES)
    for number, at in enumerate(others, 1):
        value, index = _better(builder, load(builder, source, at), ir.IntType(32)(number), value, index)
    store(builder, target, out, value)
    builder.store(index, _indices_at(builder, argmax, argmax_at), align=4)


@emitted()
def _to_argmax(builder, gradient, index, mask, target, adds):  # type: ignore[no-untyped-def]
    """Add a pool's gradient to LANES channels of a pixel where the argmax is `number` and the mask is above floor.

    target = adds * target + (gradient or 0). gradient, target : (array, index). index : (argmax array, index, number).
    mask : (array, index, floor).
    """
    (dy, dy_at), (argmax, argmax_at, number), (y, y_at, floor), (result, out) = gradient, index, mask, target
    which = builder.load(_indices_at(builder, argmax, argmax_at), align=4)
    is_largest = builder.icmp_signed("==", which, splat(builder, builder.trunc(number, ir.IntType(32))))
    passes = builder.fcmp_ordered(">", load(builder, y, y_at), splat(builder, floor))
    given = builder.select(builder.and_(is_largest, passes), load(builder, dy, dy_at), zeros())
    before = builder.select(adds, load(builder, result, out), zeros())
    store(builder, result, out, builder.fadd(before, given))


@emitted()
def _to_one_of_four(builder, gradient, index, mask, window):  # type: ignore[no-untyped-def]
    """Write a pool's gradient to its argmax pixel of a separate 2 x 2 window, and 0 to the others, as `_to_argmax`.

    index : (argmax array, index). window : (array, start, row stride, pixel stride).
    """
    (dy, dy_at), (argmax, argmax_at), (y, y_at, floor), (target, *steps) = gradient, index, mask, window
    which = builder.load(_indices_at(builder, argmax, argmax_at), align=4)
    passes = builder.fcmp_ordered(">", load(builder, y, y_at), splat(builder, floor))
    given = builder.select(passes, load(builder, dy, dy_at), zeros())
    for number, at in enumerate(_four(builder, *steps)):
        is_largest = builder.icmp_signed("==", which, ir.Constant(INTEGERS, [number] * LANES))
        store(builder, target, at, builder.select(is_largest, given, zeros()))


@inner
def _argmax_at(it, y, sample, row, column):  # type: ignore[no-untyped-def]
    """Index of the argmax of a window's first channel; y : view of the pool's output, or of its gradient."""
    return it.argmax + (sample * y.height * y.width + row * y.width + column) * y.channels


def max_pool(operands, memory, work):  # type: ignore[no-untyped-def]
    """Max pooling operation: y = largest of each window; argmax int32 (sample, pixel, channel), first of equals."""
    it, a, argmax_of = _read(operands), activations_of(memory, work), int32s(memory, ARGMAX, work.slot)
    x, y, size, stride = it.x, it.y, it.size, it.stride
    whole = y.channels // LANES * LANES
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(y.height):
            for column in range(y.width):
                start, out = place(x, sample, row * stride, column * stride), place(y, sample, row, column)
                at = _argmax_at(it, y, sample, row, column)
                if size == 2:
                    for c in range(0, whole, LANES):
                        _max_of_four((a, start + c, x.row, x.pixel), (a, out + c, argmax_of, at + c))
                else:
                    for c in range(0, whole, LANES):
                        _max((a, start + c, x.row, x.pixel, size), (a, out + c, argmax_of, at + c))
                for c in range(whole, y.channels):  # only of images that enter the net, which have no gradient
                    best = a[start + c]
                    for tap in range(1, size * size):
                        value = a[start + tap // size * x.row + tap % size * x.pixel + c]
                        best = value if not value <= best and best == best else best
                    a[out + c] = best
    return 0.0, 0.0


def max_pool_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Max pooling gradient: dx = sum of dy at each window's argmax, else 0; with has_mask, 0 if y is not above 0."""
    it, a, argmax_of = _read_gradient(operands), activations_of(memory, work), int32s(memory, ARGMAX, work.slot)
    dy, dx, size, stride = it.dy, it.dx, it.size, it.stride
    overlaps = size != stride
    floor = np.float32(0) if it.has_mask != 0 else np.float32(-np.inf)
    first, last = own_samples(work)
    for sample in range(first, last):
        if overlaps or dy.height * size < dx.height or dy.width * size < dx.width:
            for row in range(dx.height):
                for column in range(dx.width):
                    out = place(dx, sample, row, column)
                    a[out : out + dy.channels] = np.float32(0)
        for row in range(dy.height):
            for column in range(dy.width):
                gradient, value = place(dy, sample, row, column), place(it.y, sample, row, column)
                at = _argmax_at(it, dy, sample, row, column)
                if not overlaps and size == 2:
                    out = place(dx, sample, 2 * row, 2 * column)
                    for c in range(0, dy.channels, LANES):
                        mask = (a, value + c, floor)
                        _to_one_of_four((a, gradient + c), (argmax_of, at + c), mask, (a, out + c, dx.row, dx.pixel))
                    continue
                for tap in range(size * size):
                    out = place(dx, sample, row * stride + tap // size, column * stride + tap % size)
                    for c in range(0, dy.channels, LANES):
                        mask = (a, value + c, floor)
                        _to_argmax((a, gradient + c), (argmax_of, at + c, tap), mask, (a, out + c), overlaps)
    return 0.0, 0.0


def average_pool(operands, memory, work):  # type: ignore[no-untyped-def]
    """Average pooling operation: y = the mean of each window of x."""
    it, a = _read_average(operands), activations_of(memory, work)
    share = np.float32(1.0 / (it.rows * it.columns))
    first, last = own_samples(work)
    for sample in range(first, last):
        for p in range(it.y.height):
            for q in range(it.y.width):
                y = place(it.y, sample, p, q)
                out = a[y : y + it.y.channels]
                out[:] = np.float32(0)
                for i in range(it.rows):
                    for j in range(it.columns):
                        x = place(it.x, sample, p * it.stride + i, q * it.stride + j)
                        part = a[x : x + it.y.channels]
                        for channel in range(it.y.channels):
                            out[channel] += part[channel]
                for channel in range(it.y.channels):
                    out[channel] *= share
    return 0.0, 0.0


def average_pool_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Average pooling gradient: dx = the sum of dy / area over the windows that hold a pixel."""
    it, a = _read_average(operands), activations_of(memory, work)
    share = np.float32(1.0 / (it.rows * it.columns))
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x = place(it.x, sample, row, column)
                a[x : x + it.x.channels] = np.float32(0)
        for p in range(it.y.height):
            for q in range(it.y.width):
                y = place(it.y, sample, p, q)
                part = a[y : y + it.x.channels]
                for i in range(it.rows):
                    for j in range(it.columns):
                        x = place(it.x, sample, p * it.stride + i, q * it.stride + j)
                        target = a[x : x + it.x.channels]
                        for channel in range(it.x.channels):
                            target[channel] += part[channel] * share
    return 0.0, 0.0
