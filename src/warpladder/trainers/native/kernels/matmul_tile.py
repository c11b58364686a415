"""Register tile of the matrix product, for linear layers and convolutions.

numba does not tile registers reliably, so a tile is an intrinsic that emits its own vector code (emit.py). A tile is
rows x vectors of sums that stay in registers while k runs. 6 rows of 2 vectors are 12 sums, enough to hide the latency
of two FMA units, in the 16 registers of AVX2; 8 x 2 or 6 x 4 sums fit the 32 of AVX-512.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ..compiler.emit import I64, chosen, counted, emitted, fma, load, maximum, minimum, opaque, splat, store, zeros
from ..compiler.vectors import LANES
from .tile_sizes import ADD, MASK, RELU, STEP, STORE, ZERO

#: the numbers of SGD for tiles that step no weights
NO_STEP = (np.float32(0), np.float32(0), np.float32(0))


class TileArguments(NamedTuple):
    """Arguments of a matrix product's tile, in the order of its tuples. Offsets and strides count elements.

    sums[m, v, n] = start + sum over run < runs, k < length of
                    a[a_at + at[first + m] + run * a_run + k * a_k] * b[b_at + run * b_run + k * b_k + v * b_vector + n]

    for m < rows, v < vectors and n < LANES, finished into c[c_at + at[span + first + m] + v * c_vector + n].
    """

    # table: `span` offsets of each kind, and the entry at which the tile begins. Rows that should not count repeat an
    # entry of the same tile: they store the same numbers twice.
    at: ir.Value
    span: ir.Value
    first: ir.Value
    a: ir.Value  # left factor
    a_at: ir.Value
    a_k: ir.Value
    a_run: ir.Value
    b: ir.Value  # right factor
    b_at: ir.Value
    b_k: ir.Value
    b_run: ir.Value
    b_vector: ir.Value
    length: ir.Value  # depth
    runs: ir.Value
    c: ir.Value  # result
    c_at: ir.Value
    c_vector: ir.Value
    start: ir.Value  # ZERO, BIAS (bias[bias_at + v * LANES + n]) or ADD (c's numbers)
    bias: ir.Value
    bias_at: ir.Value
    # STORE; RELU; MASK (0 where mask[mask_at + at[2 * span + first + m] + v * LANES + n] is not above 0); or STEP, one
    # step of SGD: c -= rate * (clip(sums) + decay * c)
    finish: ir.Value
    mask: ir.Value
    mask_at: ir.Value
    rate: ir.Value  # step, float32
    clip: ir.Value
    decay: ir.Value


def make_tile(
    rows: int, vectors: int, starts: tuple[int, ...] = (ZERO,), finishes: tuple[int, ...] = (STORE,),
    strided: bool = False,
) -> Any:  # fmt: skip
    """Intrinsic that multiplies and adds one tile; its arguments are the tuples of `TileArguments`.

    starts, finishes : possible values of `start` and `finish`. One branch a tile costs nothing next to its sums, and
    saves compiling a tile for each pair. strided : True if a_k or b_k is known only when the tile runs; see
    `emit.opaque`.
    """

    @emitted()
    def tile(builder, table, left, right, depth, result, ends, step):  # type: ignore[no-untyped-def]
        arguments = TileArguments(*table, *left, *right, *depth, *result, *ends, *step)
        code = _TileCode(builder, arguments, rows, vectors)
        code.stored(code.multiplied(chosen(builder, arguments.start, starts, code.begun), strided), finishes)

    return tile


class _TileCode:
    """Emitter of the code of one tile."""

    def __init__(self, builder: ir.IRBuilder, arguments: TileArguments, rows: int, vectors: int) -> None:
        self.builder, self.arguments, self.rows, self.vectors = builder, arguments, rows, vectors
        it = arguments
        self.cells = [(m, v) for m in range(rows) for v in range(vectors)]
        self.a_row = [builder.gep(it.a, [self.offset(0, m, it.a_at)]) for m in range(rows)]
        c_row = [self.offset(1, m, it.c_at) for m in range(rows)]
        self.b_column, c_column = self.columns(it.b_vector), self.columns(it.c_vector)
        self.c_at = [builder.add(c_row[m], c_column[v]) for m, v in self.cells]

    def offset(self, kind: int, m: int, add: ir.Value) -> ir.Value:
        """Entry of row m in the offset table of this kind, plus `add`."""
        builder, it = self.builder, self.arguments
        entry = builder.add(builder.add(it.first, I64(m)), builder.mul(I64(kind), it.span))
        return builder.add(add, builder.load(builder.gep(it.at, [entry])))

    def columns(self, stride: ir.Value) -> list[ir.Value]:
        return [self.builder.mul(I64(v), stride) for v in range(self.vectors)]

    def begun(self, start: int) -> list[ir.Value]:
        """Sums before the first product: zeros, biases, or the present numbers of c."""
        builder, it = self.builder, self.arguments
        if start == ZERO:
            return [zeros() for _ in self.cells]
        if start == ADD:
            return [load(builder, it.c, where) for where in self.c_at]
        biases = [load(builder, it.bias, builder.add(it.bias_at, I64(v * LANES))) for v in range(self.vectors)]
        return [biases[v] for _, v in self.cells]

    def multiplied(self, sums: list[ir.Value], strided: bool) -> list[ir.Value]:
        """Sums after the loops over runs and k."""
        builder, it = self.builder, self.arguments
        run, totals, close_runs = counted(builder, it.runs, sums)
        run = opaque(builder, run) if strided else run
        # one pointer a row: the k loop then needs no address arithmetic but the shared k * a_k
        a_here = [builder.gep(row, [builder.mul(run, it.a_run)]) for row in self.a_row]
        b_here = builder.gep(it.b, [builder.add(it.b_at, builder.mul(run, it.b_run))])
        # the offset of k in each factor is added up where it is no multiple that an address can hold
        k, carried, close_k = counted(builder, it.length, totals + [I64(0)] * (2 * strided))
        sums, offsets = carried[: len(totals)], [opaque(builder, offset) for offset in carried[len(totals) :]]
        a_k, b_k = offsets if strided else (builder.mul(k, it.a_k), builder.mul(k, it.b_k))
        factors = [load(builder, b_here, builder.add(b_k, column)) for column in self.b_column]
        scalars = [splat(builder, builder.load(builder.gep(row, [a_k]))) for row in a_here]
        products = [fma(builder, scalars[m], factors[v], sums[m * self.vectors + v]) for m, v in self.cells]
        close_k(products + [builder.add(at, step) for at, step in zip(offsets, (it.a_k, it.b_k), strict=False)])
        close_runs(sums)
        return totals

    def stored(self, totals: list[ir.Value], finishes: tuple[int, ...]) -> None:
        builder, it = self.builder, self.arguments

        def masks() -> list[ir.Value]:
            rows_at = [self.offset(2, m, it.mask_at) for m in range(self.rows)]
            return [load(builder, it.mask, builder.add(rows_at[m], I64(v * LANES))) for m, v in self.cells]

        def finished(finish: int) -> list[ir.Value]:
            if finish == STEP:
                weights = [load(builder, it.c, where) for where in self.c_at]
                step = it.rate, it.clip, it.decay
                return [sgd_step(builder, g, w, step) for g, w in zip(totals, weights, strict=True)]
            return relu_or_mask(builder, totals, finish, masks)

        # stored only now, so that a repeated row does not step its weights twice
        for where, value in zip(self.c_at, chosen(builder, it.finish, finishes, finished), strict=True):
            store(builder, it.c, where, value)


def relu_or_mask(
    builder: ir.IRBuilder, totals: list[ir.Value], finish: int, masks: Callable[[], list[ir.Value]]
) -> list[ir.Value]:
    """Sums finished by STORE, RELU or MASK; masks() emits the loads of the mask's activations."""
    if finish == RELU:
        return [maximum(builder, value, zeros()) for value in totals]
    if finish == MASK:
        above = [builder.fcmp_ordered(">", mask, zeros()) for mask in masks()]
        return [builder.select(which, value, zeros()) for which, value in zip(above, totals, strict=True)]
    return totals


def sgd_step(
    builder: ir.IRBuilder, gradient: ir.Value, weight: ir.Value, step: tuple[ir.Value, ir.Value, ir.Value]
) -> ir.Value:
    """SGD step on vectors: weight - rate * (clip(gradient) + decay * weight). step : rate, clip and decay, scalars."""
    rate, clip, decay = step
    limit = splat(builder, clip)
    gradient = maximum(builder, minimum(builder, gradient, limit), builder.fneg(limit))
    gradient = fma(builder, splat(builder, decay), weight, gradient)
    return fma(builder, splat(builder, builder.fneg(rate)), gradient, weight)
