"""Tiles of neighbouring pixels of one row, for kernels of three columns and stride 1: each number that is read serves
all taps of a kernel row.

A tile of one vector's columns (simd.py) needs a load for each multiplication, and cores begin two of each in a cycle,
so that the panel's own load and
whatever else is read makes it wait; and every tile wants a table of offsets. Neighbouring pixels have most of their
patches in common, and need none::

    pixels that are read     0   1   2   3   4  ...  14        15 broadcasts and 3 vectors of weights
                              \\  |  /|\\ ...                    for 3 x 13 multiplications
    sums                       0   1   2   3  ...  12
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ..compiler.emit import (
    F32,
    I64,
    chosen,
    counted,
    fma,
    intrinsic,
    load,
    maximum,
    opaque,
    splat,
    store,
    unpacked,
    zeros,
)
from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, WIDTH
from ..program.views import CHANNELS, HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_
from .tile_sizes import BIAS, MASK, PAIR, RELU, STORE, STRETCH, TAPS, ZERO

SLOPES = 512  # pixels whose gradients stay in the first-level cache while channel after channel is multiplied by them

#: pixels to which a tile keeps a pointer; the others are one, two, four, three, six or twelve pixels from one of them,
#: which x86 adds up in an address
POINTERS = (0, 5, 10)
STEPS = {0: (0, 0), 1: (0, 1), 2: (0, 2), 4: (0, 4), 8: (0, 8), 3: (1, 1), 6: (1, 2), 12: (1, 4)}


def make_stretch(taps: int, left: int = 0, right: int = 0, length: int = STRETCH, vectors: int = 1):  # type: ignore[no-untyped-def]
    """An intrinsic that multiplies and adds `length` neighbouring pixels by a panel of one vector, or by two of them.

    sums[m, v, n] = start + sum over row < rows, tap < taps, k < depth of
                 a[a_at + row * a_row + (m + tap) * a_pixel + k] * b[b_at + row * b_row + tap * b_tap + k * WIDTH + v *
                 b_apart + n]

    for m < length, v < vectors and n < LANES, finished into c[c_at + m * c_pixel + v * LANES + n].

    (start, finish), (d, d_at), (e, e_at, e_pixel) : as of `simd.make_tile`: ZERO or BIAS; STORE, RELU or MASK.
    left, right : so many of the first and of the last pixels that it would read are known to be zeros, and left out.
    """
    read = range(left, length + taps - 1 - right)
    cells = [(m, v) for m in range(length) for v in range(vectors)]

    @intrinsic
    def stretch(typing, left, right, depth, result, ends, bias, gate):  # type: ignore[no-untyped-def]
        signature = types.void(left, right, depth, result, ends, bias, gate)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            (
                (a, a_at, a_row, a_pixel), (b, b_at, b_row, b_tap, b_apart), (depth, rows), (c, c_at, c_pixel), (start, finish), (d, d_at), (e, e_at, e_pixel),
            ) = (unpacked(context, builder, kind, value) for kind, value in zip(signature.args, values, strict=True))  # fmt: skip
            byte = ir.IntType(8).as_pointer()

            def bytes_on(pointer: ir.Value, number: ir.Value) -> ir.Value:
                return builder.gep(pointer, [number])

            def begun(start: int) -> list[ir.Value]:
                return [
                    load(builder, d, builder.add(d_at, I64(v * LANES))) if start == BIAS else zeros() for _, v in cells
                ]

            pitch, tap = builder.mul(a_pixel, I64(4)), builder.mul(b_tap, I64(4))
            thrice = builder.mul(pitch, I64(3))
            row, totals, close_rows = counted(builder, rows, chosen(builder, start, (ZERO, BIAS), begun))
            first = builder.bitcast(builder.gep(a, [builder.add(a_at, builder.mul(row, a_row))]), byte)
            pixels = [bytes_on(first, builder.mul(pitch, I64(at))) for at in POINTERS]
            panel = builder.bitcast(builder.gep(b, [builder.add(b_at, builder.mul(row, b_row))]), byte)
            panels = [bytes_on(panel, builder.mul(b_apart, I64(4 * v))) for v in range(vectors)]
            _, carried, close_k = counted(builder, depth, [*totals, *pixels, *panels])
            sums, pixels, panels = carried[: len(cells)], carried[len(cells) : -vectors], carried[-vectors:]
            # else LLVM keeps a pointer for each pixel, more than there are registers
            steps, tap_on = [opaque(builder, pitch), opaque(builder, thrice)], opaque(builder, tap)

            def pixel(at: int) -> ir.Value:
                base, (which, times) = next(
                    (i, STEPS[at - base]) for i, base in enumerate(POINTERS) if at - base in STEPS
                )
                here = bytes_on(pixels[base], builder.mul(steps[which], I64(times))) if times else pixels[base]
                return splat(builder, builder.load(builder.bitcast(here, F32.as_pointer()), align=4))

            def factor(panel: ir.Value, at: int) -> ir.Value:
                here = bytes_on(panel, builder.mul(tap_on, I64(at))) if at else panel
                return load(builder, builder.bitcast(here, F32.as_pointer()), I64(0))

            factors = [[factor(panel, at) for panel in panels] for at in range(taps)]
            for at in read:
                scalar = pixel(at)
                for m in range(max(0, at - taps + 1), min(at, length - 1) + 1):
                    for v in range(vectors):
                        sums[m * vectors + v] = fma(builder, scalar, factors[at - m][v], sums[m * vectors + v])
            close_k(
                [
                    *sums,
                    *(bytes_on(each, I64(4)) for each in pixels),
                    *(bytes_on(each, I64(4 * WIDTH)) for each in panels),
                ]
            )
            close_rows(carried[: len(cells)])
            places = [builder.add(builder.add(c_at, builder.mul(c_pixel, I64(m))), I64(v * LANES)) for m, v in cells]

            def finished(finish: int) -> list[ir.Value]:
                if finish == RELU:
                    return [maximum(builder, value, zeros()) for value in totals]
                if finish == MASK:
                    gates = [
                        load(builder, e, builder.add(builder.add(e_at, builder.mul(e_pixel, I64(m))), I64(v * LANES)))
                        for m, v in cells
                    ]
                    return [
                        builder.select(builder.fcmp_ordered(">", gate, zeros()), value, zeros())
                        for gate, value in zip(gates, totals, strict=True)
                    ]
                return totals

            for where, value in zip(places, chosen(builder, finish, (STORE, RELU, MASK), finished), strict=True):
                store(builder, c, where, value)
            return context.get_dummy_value()

        return signature, emit

    return stretch


_stretch = make_stretch(TAPS)
_first_stretch = make_stretch(TAPS, left=TAPS - 1)
_last_stretch = make_stretch(TAPS, right=TAPS - 1)
_alone = make_stretch(1)
_pair = make_stretch(TAPS, length=PAIR, vectors=2)


@inner
def convolve(source, x, zeros, weights, w_at, target, y, biases, bias_at, gates, gate, finish, row_range, panels):  # type: ignore[no-untyped-def]
    """As conv.convolve, for whole rows in a range: kernels of TAPS columns and rows, stride 1, rows of a stretch's
    pixels or more.

    zeros : how many rows and columns of zeros x begins with, and how many rows and columns that are none follow them,
    (3,).
    panels : the first, the one behind the last, and whether they go in pairs, (3,).
    """
    border, height, width = zeros[0], zeros[1], zeros[2]
    channels, columns, pairs = x[CHANNELS], y[WIDTH_], TOGETHER > 1 and panels[2] != 0
    a_row = TAPS * channels * WIDTH  # of weights
    start = BIAS if bias_at >= 0 else ZERO
    length = PAIR if pairs else STRETCH
    for panel in range(panels[0], panels[1], 2 if pairs else 1):
        at = panel * WIDTH
        for line in range(row_range[0], row_range[1]):
            sample, row = divmod(line, y[HEIGHT])
            # rows of a patch that are zeros add nothing
            first, last = max(0, border - row), min(TAPS, border + height - row)
            a_at = x[OFFSET] + sample * x[SAMPLE] + (row + first) * x[ROW]
            c_at = y[OFFSET] + sample * y[SAMPLE] + row * y[ROW] + at
            e_at = gate[OFFSET] + sample * gate[SAMPLE] + row * gate[ROW] + at
            depth = (channels, last - first)
            for piece in range(0, columns, length):
                column = min(piece, columns - length)
                left = (source, a_at + column * x[PIXEL], x[ROW], x[PIXEL])
                for lane in range(0, LANES if pairs else WIDTH, LANES):
                    right = (
                        weights,
                        w_at + (panel * TAPS + first) * a_row + lane,
                        a_row,
                        channels * WIDTH,
                        TAPS * a_row,
                    )
                    result = (target, c_at + column * y[PIXEL] + lane, y[PIXEL])
                    bias, mask = (biases, bias_at + at + lane), (gates, e_at + column * gate[PIXEL] + lane, gate[PIXEL])
                    if TOGETHER > 1 and pairs:
                        _pair(left, right, depth, result, (start, finish), bias, mask)
                    elif column == 0 and border >= TAPS - 1:
                        _first_stretch(left, right, depth, result, (start, finish), bias, mask)
                    elif column + STRETCH >= border + width:
                        _last_stretch(left, right, depth, result, (start, finish), bias, mask)
                    else:
                        _stretch(left, right, depth, result, (start, finish), bias, mask)


@inner
def multiply(source, x, weights, w_at, target, y, biases, bias_at, gates, gate, finish, first, last):  # type: ignore[no-untyped-def]
    """As conv.convolve, for one panel, kernels of one pixel, and STRETCH or more pixels of one row, from `first` to
    before `last`.
    """
    ends = (BIAS if bias_at >= 0 else ZERO, finish)
    for piece in range(first, last, STRETCH):
        column = min(piece, last - STRETCH)
        left = (source, x[OFFSET] + column * x[PIXEL], 0, x[PIXEL])
        result = (target, y[OFFSET] + column * y[PIXEL], y[PIXEL])
        mask = (gates, gate[OFFSET] + column * gate[PIXEL], gate[PIXEL])
        _alone(left, (weights, w_at, 0, 0, 0), (x[CHANNELS], 1), result, ends, (biases, bias_at), mask)


@intrinsic
def _gradient(typing, left, right, extent, result, bias, fresh):  # type: ignore[no-untyped-def]
    """The gradients of one input channel's TAPS x TAPS weights to a panel of one vector, and of the bias beside them.

    sums[i, j, n] = start + sum over row < rows, m < pixels of
                    a[a_at + (row + i) * a_row + (m + j) * a_pixel] * b[b_at + row * b_row + m * b_pixel + n]

    for i, j < TAPS and n < LANES, to c[c_at + (i * TAPS + j) * c_tap + n], and start + sum of b alone to d[d_at + n],
    if `wanted`. start : what is there, or 0 if `fresh`. Numbers of a are read once a row of the kernel, and stay in
    registers for its taps.
    """
    signature = types.void(left, right, extent, result, bias, fresh)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        ((a, a_at, a_row, a_pixel), (b, b_at, b_row, b_pixel), (pixels, rows), (c, c_at, c_tap), (d, d_at, wanted)) = (
            unpacked(context, builder, kind, value)
            for kind, value in zip(signature.args[:-1], values[:-1], strict=True)
        )
        places = [builder.add(c_at, builder.mul(c_tap, I64(tap))) for tap in range(TAPS * TAPS)]

        def begun(fresh: int) -> list[ir.Value]:
            return (
                [zeros()] * (TAPS * TAPS + 1)
                if fresh
                else [*(load(builder, c, place) for place in places), load(builder, d, d_at)]
            )

        def read(lines: list[ir.Value], on: ir.Value) -> list[ir.Value]:
            return [splat(builder, builder.load(builder.gep(line, [on]))) for line in lines]

        before = builder.select(builder.icmp_signed("!=", values[-1], I64(0)), zeros(), load(builder, d, d_at))
        row, totals, close_rows = counted(builder, rows, chosen(builder, values[-1], (0, 1), begun))
        lines = [builder.gep(a, [builder.add(a_at, builder.mul(builder.add(row, I64(i)), a_row))]) for i in range(TAPS)]
        slopes = builder.gep(b, [builder.add(b_at, builder.mul(row, b_row))])
        held = [each for j in range(TAPS - 1) for each in read(lines, builder.mul(a_pixel, I64(j)))]
        m, carried, close = counted(builder, pixels, [*totals, *held])
        sums, held = carried[: len(totals)], carried[len(totals) :]
        slope = load(builder, slopes, builder.mul(m, b_pixel))
        held = held + read(lines, builder.mul(builder.add(m, I64(TAPS - 1)), a_pixel))
        new = [fma(builder, held[j * TAPS + i], slope, sums[i * TAPS + j]) for i in range(TAPS) for j in range(TAPS)]
        close([*new, builder.fadd(sums[-1], slope), *held[TAPS:]])
        close_rows(carried[: len(totals)])
        for place, value in zip(places, totals, strict=False):
            store(builder, c, place, value)
        store(builder, d, d_at, builder.select(builder.icmp_signed("!=", wanted, I64(0)), totals[-1], before))
        return context.get_dummy_value()

    return signature, emit


@inner
def weight_gradient(source, x, slopes, dy, samples, target, w_at, b_at, add):  # type: ignore[no-untyped-def]
    """As conv.weight_gradient and conv.bias_gradient, for one panel, kernels of TAPS columns and rows, and stride 1."""
    channels = x[CHANNELS]
    lines = max(1, SLOPES // dy[WIDTH_])
    fresh = 0 if add else 1
    for sample in range(samples):
        for row in range(0, dy[HEIGHT], lines):
            rows = min(lines, dy[HEIGHT] - row)
            a_at = x[OFFSET] + sample * x[SAMPLE] + row * x[ROW]
            right = (slopes, dy[OFFSET] + sample * dy[SAMPLE] + row * dy[ROW], dy[ROW], dy[PIXEL])
            for channel in range(channels):
                left = (source, a_at + channel, x[ROW], x[PIXEL])
                result = (target, w_at + channel * WIDTH, channels * WIDTH)
                last = 1 if channel == channels - 1 else 0
                _gradient(left, right, (dy[WIDTH_], rows), result, (target, b_at, last), fresh)
            fresh = 0
