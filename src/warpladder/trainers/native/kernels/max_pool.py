"""Max-pooling in vector registers: the winner of a window, and its gradient's way back, for LANES neighbouring
channels.

A window of 2 x 2 pixels has code of its own without a loop, which took longer than what it did.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ..compiler.emit import INTEGERS, counted, intrinsic, load, pointers, splat, store, zeros
from ..compiler.vectors import LANES


def _better(builder: ir.IRBuilder, new: ir.Value, number: ir.Value, old: ir.Value, winner: ir.Value) -> list[ir.Value]:
    """The larger of new and old, and whose number it is: old stays among equals, and once it is a NaN."""
    # "unordered or greater", except that a NaN once kept is not replaced
    larger = builder.and_(builder.fcmp_unordered(">", new, old), builder.fcmp_ordered("ord", old, old))
    return [builder.select(larger, new, old), builder.select(larger, splat(builder, number), winner)]


def _keep(
    builder: ir.IRBuilder,
    value: ir.Value,
    best: ir.Value,
    best_at: ir.Value,
    winner: ir.Value,
    winners: ir.Value,
    at: ir.Value,
) -> None:
    store(builder, best, best_at, value)
    builder.store(winner, builder.bitcast(builder.gep(winners, [at]), INTEGERS.as_pointer()), align=4)


@intrinsic
def largest(typing, source, start, row_step, column_step, size, best, best_at, winners, winners_at):  # type: ignore[no-untyped-def]
    """The largest of size x size pixels, for LANES neighbouring channels, and which pixel it is: the first among
    equals, or the first NaN.
    """
    i64 = types.int64
    signature = types.void(source, i64, i64, i64, i64, best, i64, winners, i64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        source, start, row_step, column_step, size, best, best_at, winners, winners_at = pointers(
            context, builder, signature, values
        )
        nobody = ir.Constant(INTEGERS, [0] * LANES)
        row, carried, close_rows = counted(builder, size, [load(builder, source, start), nobody])
        line = builder.add(start, builder.mul(row, row_step))
        column, (old, winner), close_columns = counted(builder, size, carried)
        new = load(builder, source, builder.add(line, builder.mul(column, column_step)))
        number = builder.trunc(builder.add(builder.mul(row, size), column), ir.IntType(32))
        close_columns(_better(builder, new, number, old, winner))
        close_rows([old, winner])
        value, winner = carried
        _keep(builder, value, best, best_at, winner, winners, winners_at)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def largest_of_four(typing, source, start, row_step, column_step, best, best_at, winners, winners_at):  # type: ignore[no-untyped-def]
    """`largest` of 2 x 2 pixels."""
    i64 = types.int64
    signature = types.void(source, i64, i64, i64, best, i64, winners, i64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        source, start, row_step, column_step, best, best_at, winners, winners_at = pointers(
            context, builder, signature, values
        )
        value, winner = load(builder, source, start), ir.Constant(INTEGERS, [0] * LANES)
        below = builder.add(start, row_step)
        for number, at in enumerate((builder.add(start, column_step), below, builder.add(below, column_step)), 1):
            value, winner = _better(builder, load(builder, source, at), ir.IntType(32)(number), value, winner)
        _keep(builder, value, best, best_at, winner, winners, winners_at)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def to_winner(typing, slopes, slopes_at, winners, winners_at, number, gates, gates_at, floor, target, target_at, add):  # type: ignore[no-untyped-def]
    """target = add * target + (slopes where winners is number and gates is above floor, else 0), for LANES neighbours;
    add is 0 or 1.
    """
    i64 = types.int64
    signature = types.void(
        slopes, i64, winners, i64, types.int32, gates, i64, types.float32, target, i64, types.boolean
    )

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        (slopes, slopes_at, winners, winners_at, number, gates, gates_at, floor, target, target_at, add) = pointers(
            context, builder, signature, values
        )
        which = builder.load(builder.bitcast(builder.gep(winners, [winners_at]), INTEGERS.as_pointer()), align=4)
        won = builder.icmp_signed("==", which, splat(builder, number))
        passes = builder.fcmp_ordered(">", load(builder, gates, gates_at), splat(builder, floor))
        given = builder.select(builder.and_(won, passes), load(builder, slopes, slopes_at), zeros())
        before = builder.select(add, load(builder, target, target_at), zeros())
        store(builder, target, target_at, builder.fadd(before, given))
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def to_one_of_four(
    typing, slopes, slopes_at, winners, winners_at, gates, gates_at, floor, target, start, row_step, column_step
):  # type: ignore[no-untyped-def]
    """The gradients of 2 x 2 pixels that belong to no other window: `slopes` where a pixel has won and `gates` is above
    floor, else 0; LANES neighbours.
    """
    i64 = types.int64
    signature = types.void(slopes, i64, winners, i64, gates, i64, types.float32, target, i64, i64, i64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        slopes, slopes_at, winners, winners_at, gates, gates_at, floor, target, start, row_step, column_step = pointers(
            context, builder, signature, values
        )
        which = builder.load(builder.bitcast(builder.gep(winners, [winners_at]), INTEGERS.as_pointer()), align=4)
        passes = builder.fcmp_ordered(">", load(builder, gates, gates_at), splat(builder, floor))
        given = builder.select(passes, load(builder, slopes, slopes_at), zeros())
        below = builder.add(start, row_step)
        for number, at in enumerate((start, builder.add(start, column_step), below, builder.add(below, column_step))):
            won = builder.icmp_signed("==", which, ir.Constant(INTEGERS, [number] * LANES))
            store(builder, target, at, builder.select(won, given, zeros()))
        return context.get_dummy_value()

    return signature, emit
