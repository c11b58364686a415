r"""Register tiles of a pixel run: neighbouring pixels of one row, for kernels of three columns and stride 1.

The matrix product's tile (matmul_tile.py) with one vector of columns needs a load for each multiplication, while a core
begins as many loads as multiplications; it also reads a table of offsets. Neighbouring pixels share their patches: each
number that is read serves all taps of a kernel row, without a table::

    pixels that are read     0   1   2   3   4  ...  14        15 broadcasts and 3 vectors of weights
                              \  |  /|\ ...                    for 3 x 13 multiplications
    sums                       0   1   2   3  ...  12
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from ..compiler.emit import F32, I64, chosen, counted, emitted, fma, load, opaque, splat, store, zeros
from ..compiler.vectors import LANES, WIDTH
from .matmul_tile import relu_or_mask
from .tile_sizes import BIAS, MASK, RELU, RUN, STORE, TAPS, ZERO

#: pixels to which a tile has a pointer; the others are one, two, four, three, six or twelve pixels from one of them,
#: which x86 adds up in an address
POINTERS = (0, 5, 10)
STEPS = {0: (0, 0), 1: (0, 1), 2: (0, 2), 4: (0, 4), 8: (0, 8), 3: (1, 1), 6: (1, 2), 12: (1, 4)}
BYTE = ir.IntType(8).as_pointer()


class RunArguments(NamedTuple):
    """Arguments of a pixel run's tile, in the order of its tuples. Offsets and strides count elements.

    sums[m, v, n] = start + sum over row < rows, tap < taps, k < depth of
        a[a_at + row * a_row + (m + tap) * a_pixel + k]
        * b[b_at + row * b_row + tap * b_tap + k * WIDTH + v * b_vector + n]

    for m < length, v < vectors and n < LANES, finished into c[c_at + m * c_pixel + v * LANES + n].
    """

    a: ir.Value  # activations
    a_at: ir.Value
    a_row: ir.Value
    a_pixel: ir.Value
    b: ir.Value  # weights
    b_at: ir.Value
    b_row: ir.Value
    b_tap: ir.Value
    b_vector: ir.Value
    depth: ir.Value
    rows: ir.Value
    c: ir.Value  # result
    c_at: ir.Value
    c_pixel: ir.Value
    start: ir.Value  # ZERO or BIAS
    bias: ir.Value
    bias_at: ir.Value
    finish: ir.Value  # STORE, RELU or MASK
    mask: ir.Value
    mask_at: ir.Value
    mask_pixel: ir.Value


def make_run_tile(taps: int, left: int = 0, right: int = 0, length: int = RUN, vectors: int = 1) -> Any:
    """Intrinsic that multiplies and adds `length` neighbouring pixels by `vectors` vectors; see `RunArguments`.

    left, right : numbers of first and last pixels that are zeros, and are not read.
    """

    @emitted()
    def run_tile(builder, pixels, weights, extent, result, begin, end):  # type: ignore[no-untyped-def]
        arguments = RunArguments(*pixels, *weights, *extent, *result, *begin, *end)
        code = _RunCode(builder, arguments, length, vectors)
        code.stored(code.multiplied(taps, range(left, length + taps - 1 - right)))

    return run_tile


class _RunCode:
    """Emitter of the code of one pixel run's tile."""

    def __init__(self, builder: ir.IRBuilder, arguments: RunArguments, length: int, vectors: int) -> None:
        self.builder, self.arguments, self.length, self.vectors = builder, arguments, length, vectors
        self.cells = [(m, v) for m in range(length) for v in range(vectors)]

    def bytes_on(self, pointer: ir.Value, number: ir.Value) -> ir.Value:
        return self.builder.gep(pointer, [number])

    def begun(self, start: int) -> list[ir.Value]:
        """Sums before the first product: zeros or biases."""
        it, add = self.arguments, self.builder.add
        return [
            load(self.builder, it.bias, add(it.bias_at, I64(v * LANES))) if start == BIAS else zeros()
            for _, v in self.cells
        ]

    def multiplied(self, taps: int, read: range) -> list[ir.Value]:
        """Sums after the loops over rows and depth. read : pixels that are read."""
        builder, it, bytes_on, cells = self.builder, self.arguments, self.bytes_on, self.cells
        pitch, tap = builder.mul(it.a_pixel, I64(4)), builder.mul(it.b_tap, I64(4))
        thrice = builder.mul(pitch, I64(3))
        row, totals, close_rows = counted(builder, it.rows, chosen(builder, it.start, (ZERO, BIAS), self.begun))
        first = builder.bitcast(builder.gep(it.a, [builder.add(it.a_at, builder.mul(row, it.a_row))]), BYTE)
        pixels = [bytes_on(first, builder.mul(pitch, I64(at))) for at in POINTERS]
        panel = builder.bitcast(builder.gep(it.b, [builder.add(it.b_at, builder.mul(row, it.b_row))]), BYTE)
        panels = [bytes_on(panel, builder.mul(it.b_vector, I64(4 * v))) for v in range(self.vectors)]
        _, carried, close_depth = counted(builder, it.depth, [*totals, *pixels, *panels])
        sums, pixels, panels = carried[: len(cells)], carried[len(cells) : -self.vectors], carried[-self.vectors :]
        # else LLVM has a pointer for each pixel, more than registers
        steps, tap_on = (opaque(builder, pitch), opaque(builder, thrice)), opaque(builder, tap)
        factors = [[self.factor(panel, tap_on, at) for panel in panels] for at in range(taps)]
        for at in read:
            scalar = self.pixel(pixels, steps, at)
            for m in range(max(0, at - taps + 1), min(at, self.length - 1) + 1):
                for v in range(self.vectors):
                    cell = m * self.vectors + v
                    sums[cell] = fma(builder, scalar, factors[at - m][v], sums[cell])
        next_k = [bytes_on(each, I64(4)) for each in pixels] + [bytes_on(each, I64(4 * WIDTH)) for each in panels]
        close_depth([*sums, *next_k])
        close_rows(carried[: len(cells)])
        return totals

    def pixel(self, pixels: list[ir.Value], steps: tuple[ir.Value, ir.Value], at: int) -> ir.Value:
        """Vector with a pixel's number in all lanes."""
        builder = self.builder
        base, (which, times) = next((i, STEPS[at - base]) for i, base in enumerate(POINTERS) if at - base in STEPS)
        here = self.bytes_on(pixels[base], builder.mul(steps[which], I64(times))) if times else pixels[base]
        return splat(builder, builder.load(builder.bitcast(here, F32.as_pointer()), align=4))

    def factor(self, panel: ir.Value, tap: ir.Value, at: int) -> ir.Value:
        """Vector of LANES weights of tap `at`."""
        here = self.bytes_on(panel, self.builder.mul(tap, I64(at))) if at else panel
        return load(self.builder, self.builder.bitcast(here, F32.as_pointer()), I64(0))

    def places(self, start: ir.Value, stride: ir.Value) -> list[ir.Value]:
        """Index of each cell, for pixels at this stride."""
        add, mul = self.builder.add, self.builder.mul
        return [add(add(start, mul(stride, I64(m))), I64(v * LANES)) for m, v in self.cells]

    def stored(self, totals: list[ir.Value]) -> None:
        builder, it = self.builder, self.arguments
        places = self.places(it.c_at, it.c_pixel)

        def masks() -> list[ir.Value]:
            return [load(builder, it.mask, at) for at in self.places(it.mask_at, it.mask_pixel)]

        def finished(finish: int) -> list[ir.Value]:
            return relu_or_mask(builder, totals, finish, masks)

        for at, value in zip(places, chosen(builder, it.finish, (STORE, RELU, MASK), finished), strict=True):
            store(builder, it.c, at, value)


@emitted()
def gradient_tile(builder, left, right, extent, result, bias, fresh):  # type: ignore[no-untyped-def]
    """Add the gradients of one input channel's TAPS x TAPS weights to a panel of one vector, and of the panel's bias.

    sums[i, j, n] = start + sum over row < rows, m < pixels of
                    a[a_at + (row + i) * a_row + (m + j) * a_pixel] * b[b_at + row * b_row + m * b_pixel + n]

    for i, j < TAPS and n < LANES, to c[c_at + (i * TAPS + j) * c_tap + n], and start + sum of b alone to d[d_at + n],
    if `wanted` is 1. start : old content, or 0 if `fresh`. Each number of a is read once a kernel row, and stays in a
    register.
    """

    (a, a_at, a_row, a_pixel), (b, b_at, b_row, b_pixel), (pixels, rows) = left, right, extent
    (c, c_at, c_tap), (d, d_at, wanted) = result, bias
    places = [builder.add(c_at, builder.mul(c_tap, I64(tap))) for tap in range(TAPS * TAPS)]

    def begun(is_fresh: int) -> list[ir.Value]:
        if is_fresh:
            return [zeros()] * (TAPS * TAPS + 1)
        return [*(load(builder, c, place) for place in places), load(builder, d, d_at)]

    def read(lines: list[ir.Value], on: ir.Value) -> list[ir.Value]:
        return [splat(builder, builder.load(builder.gep(line, [on]))) for line in lines]

    before = builder.select(builder.icmp_signed("!=", fresh, I64(0)), zeros(), load(builder, d, d_at))
    row, totals, close_rows = counted(builder, rows, chosen(builder, fresh, (0, 1), begun))
    lines = [builder.gep(a, [builder.add(a_at, builder.mul(builder.add(row, I64(i)), a_row))]) for i in range(TAPS)]
    gradients = builder.gep(b, [builder.add(b_at, builder.mul(row, b_row))])
    held = [each for j in range(TAPS - 1) for each in read(lines, builder.mul(a_pixel, I64(j)))]
    m, carried, close = counted(builder, pixels, [*totals, *held])
    sums, held = carried[: len(totals)], carried[len(totals) :]
    gradient = load(builder, gradients, builder.mul(m, b_pixel))
    held = held + read(lines, builder.mul(builder.add(m, I64(TAPS - 1)), a_pixel))
    new = [fma(builder, held[j * TAPS + i], gradient, sums[i * TAPS + j]) for i in range(TAPS) for j in range(TAPS)]
    close([*new, builder.fadd(sums[-1], gradient), *held[TAPS:]])
    close_rows(carried[: len(totals)])
    for place, value in zip(places, totals, strict=False):
        store(builder, c, place, value)
    store(builder, d, d_at, builder.select(builder.icmp_signed("!=", wanted, I64(0)), totals[-1], before))
