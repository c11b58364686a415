"""The vector kernels that everything else stands on.

numba compiles Python loops well but leaves register tiling to chance. Each function here is
an intrinsic: it emits its LLVM vector code itself (emit.py) and then reads like a function call
inside compiled code. Nothing here knows about layers.

A *tile* is rows x vectors of sums that stay in registers while k runs. With 6 rows of 2 it keeps
12 sums, enough to hide the latency of two FMA units, in the 16 vector registers of AVX2; with 8 rows
16 sums, in the 32 of AVX-512, and with 6 rows and 4 vectors 24.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ..compiler.emit import (
    I64,
    chosen,
    counted,
    fma,
    intrinsic,
    load,
    maximum,
    minimum,
    opaque,
    splat,
    store,
    unpacked,
    zeros,
)
from ..compiler.vectors import LANES
from .tile_sizes import ADD, MASK, RELU, STEP, STORE, ZERO


def sgd_step(
    builder: ir.IRBuilder, gradient: ir.Value, weight: ir.Value, rate: ir.Value, clip: ir.Value, decay: ir.Value
) -> ir.Value:
    """weight - rate * (clip(gradient) + decay * weight), on vectors; rate, clip and decay are scalars."""
    limit = splat(builder, clip)
    gradient = maximum(builder, minimum(builder, gradient, limit), builder.fneg(limit))
    gradient = fma(builder, splat(builder, decay), weight, gradient)
    return fma(builder, splat(builder, builder.fneg(rate)), gradient, weight)


def make_tile(
    rows: int,
    vectors: int,
    starts: tuple[int, ...] = (ZERO,),
    finishes: tuple[int, ...] = (STORE,),
    strided: bool = False,
):  # type: ignore[no-untyped-def]
    """An intrinsic that multiplies and adds one tile.

    sums[m, v, n] = start + sum over run < runs, k < length of
                    a[a_at + at[m] + run * a_run + k * a_k] * b[b_at + run * b_run + k * b_k + v * b_apart + n]

    for m < rows, v < vectors and n < LANES, finished into c[c_at + at[span + m] + v * c_apart + n]. Its arguments:

    (at, span), first : the offset table, `span` entries of a kind, and the entry at which the tile begins. Rows that
        should not count repeat an offset pair of the same tile: they then store the same numbers twice.
    (a, a_at, a_k, a_run), (b, b_at, b_k, b_run, b_apart) : the factors; offsets and strides count elements.
    (length, runs) : how far k and run go.
    (c, c_at, c_apart) : where the result goes.
    (start, finish) : which of `starts` and of `finishes` it is this time; a branch that a tile takes once costs nothing
        beside its sums, and a tile for each pair would be compiled as often.
    (d, d_at), (e, e_at) : what BIAS and what MASK read.
    (rate, clip, decay) : of STEP, float32.

    starts : ZERO, BIAS (d[d_at + v * LANES + n]) or ADD (what c holds).
    finishes : STORE; RELU; MASK (0 where e[e_at + at[2 * span + m] + v * LANES + n] is not above 0); or
        STEP, one of SGD on c: c -= rate * (clip(sums) + decay * c).
    strided : whether a_k or b_k is known only when the tile runs; see `emit.opaque`.
    """

    @intrinsic
    def tile(typing, table, first, left, right, depth, result, ends, bias, gate, step):  # type: ignore[no-untyped-def]
        signature = types.void(table, types.int64, left, right, depth, result, ends, bias, gate, step)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            first_entry = values[1]
            (
                (at, span), (a, a_add, a_k, a_run), (b, b_at, b_k, b_run, b_apart), (length, runs), (c, c_add, c_apart),
                (start, finish), (d, d_add), (e, e_add), (rate, clip, decay),
            ) = (
                unpacked(context, builder, kind, value)
                for kind, value in zip(signature.args, values, strict=True)
                if isinstance(kind, types.BaseTuple)
            )  # fmt: skip

            def offset(kind: int, m: int, add: ir.Value) -> ir.Value:
                entry = builder.add(builder.add(first_entry, I64(m)), builder.mul(I64(kind), span))
                return builder.add(add, builder.load(builder.gep(at, [entry])))

            def columns(apart: ir.Value) -> list[ir.Value]:
                return [builder.mul(I64(v), apart) for v in range(vectors)]

            cells = [(m, v) for m in range(rows) for v in range(vectors)]
            a_row = [builder.gep(a, [offset(0, m, a_add)]) for m in range(rows)]
            c_row = [offset(1, m, c_add) for m in range(rows)]
            b_column, c_column = columns(b_apart), columns(c_apart)
            c_at = [builder.add(c_row[m], c_column[v]) for m, v in cells]

            def begun(start: int) -> list[ir.Value]:
                if start == ZERO:
                    return [zeros() for _ in cells]
                if start == ADD:
                    return [load(builder, c, where) for where in c_at]
                biases = [load(builder, d, builder.add(d_add, I64(v * LANES))) for v in range(vectors)]
                return [biases[v] for _, v in cells]

            run, totals, close_runs = counted(builder, runs, chosen(builder, start, starts, begun))
            run = opaque(builder, run) if strided else run
            # one pointer a row: the k loop then needs no address arithmetic but the shared k * a_k
            a_here = [builder.gep(row, [builder.mul(run, a_run)]) for row in a_row]
            b_here = builder.gep(b, [builder.add(b_at, builder.mul(run, b_run))])
            # how far k has come in each factor is added up, where it is no multiple that an address can hold
            k, carried, close_k = counted(builder, length, totals + [I64(0)] * (2 * strided))
            sums, gone = carried[: len(totals)], [opaque(builder, far) for far in carried[len(totals) :]]
            a_far, b_far = gone if strided else (builder.mul(k, a_k), builder.mul(k, b_k))
            factors = [load(builder, b_here, builder.add(b_far, column)) for column in b_column]
            scalars = [splat(builder, builder.load(builder.gep(row, [a_far]))) for row in a_here]
            products = [fma(builder, scalars[m], factors[v], sums[m * vectors + v]) for m, v in cells]
            close_k(products + [builder.add(far, by) for far, by in zip(gone, (a_k, b_k), strict=False)])
            close_runs(sums)

            def finished(finish: int) -> list[ir.Value]:
                if finish == RELU:
                    return [maximum(builder, value, zeros()) for value in totals]
                if finish == MASK:
                    rows_at = [offset(2, m, e_add) for m in range(rows)]
                    gates = [load(builder, e, builder.add(rows_at[m], I64(v * LANES))) for m, v in cells]
                    above = [builder.fcmp_ordered(">", gate, zeros()) for gate in gates]
                    return [builder.select(which, value, zeros()) for which, value in zip(above, totals, strict=True)]
                if finish == STEP:
                    weights = [load(builder, c, where) for where in c_at]
                    return [sgd_step(builder, g, w, rate, clip, decay) for g, w in zip(totals, weights, strict=True)]
                return totals

            # stored only now, so that a repeated row does not step its weights twice
            for where, value in zip(c_at, chosen(builder, finish, finishes, finished), strict=True):
                store(builder, c, where, value)
            return context.get_dummy_value()

        return signature, emit

    return tile
