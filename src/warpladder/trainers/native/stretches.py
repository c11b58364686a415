"""Tiles of neighbouring pixels of one row, for a last panel that has no neighbour: each number that is read serves all taps of a kernel row.

A tile of one vector's columns (simd.py) needs a load for each multiplication, and cores begin two of each in a cycle, so that the panel's own load and
whatever else is read makes it wait. Neighbouring pixels have most of their patches in common::

    pixels that are read     0   1   2   3   4  ...  14        15 broadcasts and 3 vectors of weights
                              \\  |  /|\\ ...                    for 3 x 13 multiplications
    sums                       0   1   2   3  ...  12
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from .emit import F32, I64, chosen, counted, fma, intrinsic, load, maximum, opaque, splat, store, unpacked, zeros
from .inner import inner
from .tiles import BIAS, MASK, RELU, STORE, STRETCH, TAPS, ZERO
from .vectors import LANES, WIDTH
from .views import CHANNELS, HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_

#: pixels to which a tile keeps a pointer; the others are one, two, four, three, six or twelve pixels from one of them, which x86 adds up in an address
POINTERS = (0, 5, 10)
STEPS = {0: (0, 0), 1: (0, 1), 2: (0, 2), 4: (0, 4), 8: (0, 8), 3: (1, 1), 6: (1, 2), 12: (1, 4)}


def make_stretch(left: int, right: int):  # type: ignore[no-untyped-def]
    """An intrinsic that multiplies and adds STRETCH neighbouring pixels by a panel of one vector.

    sums[m, n] = start + sum over row < rows, tap < TAPS, k < depth of
                 a[a_at + row * a_row + (m + tap) * a_pixel + k] * b[b_at + row * b_row + tap * b_tap + k * LANES + n]

    for m < STRETCH and n < LANES, finished into c[c_at + m * c_pixel + n].

    (start, finish), (d, d_at), (e, e_at, e_pixel) : as of `simd.make_tile`: ZERO or BIAS; STORE, RELU or MASK.
    left, right : so many of the first and of the last pixels that it would read are known to be zeros, and left out.
    """
    read = range(left, STRETCH + TAPS - 1 - right)

    @intrinsic
    def stretch(typing, left, right, depth, result, ends, bias, gate):  # type: ignore[no-untyped-def]
        signature = types.void(left, right, depth, result, ends, bias, gate)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            (
                (a, a_at, a_row, a_pixel), (b, b_at, b_row, b_tap), (depth, rows), (c, c_at, c_pixel), (start, finish), (d, d_at), (e, e_at, e_pixel),
            ) = (unpacked(context, builder, kind, value) for kind, value in zip(signature.args, values, strict=True))  # fmt: skip
            byte = ir.IntType(8).as_pointer()

            def bytes_on(pointer: ir.Value, number: ir.Value) -> ir.Value:
                return builder.gep(pointer, [number])

            def begun(start: int) -> list[ir.Value]:
                return [load(builder, d, d_at) if start == BIAS else zeros()] * STRETCH

            pitch, tap = builder.mul(a_pixel, I64(4)), builder.mul(b_tap, I64(4))
            thrice = builder.mul(pitch, I64(3))
            row, totals, close_rows = counted(builder, rows, chosen(builder, start, (ZERO, BIAS), begun))
            first = builder.bitcast(builder.gep(a, [builder.add(a_at, builder.mul(row, a_row))]), byte)
            pixels = [bytes_on(first, builder.mul(pitch, I64(at))) for at in POINTERS]
            weights = builder.bitcast(builder.gep(b, [builder.add(b_at, builder.mul(row, b_row))]), byte)
            _, carried, close_k = counted(builder, depth, [*totals, *pixels, weights])
            sums, pixels, weights = carried[:STRETCH], carried[STRETCH:-1], carried[-1]
            # else LLVM keeps a pointer for each pixel, more than there are registers
            steps, tap_on = [opaque(builder, pitch), opaque(builder, thrice)], opaque(builder, tap)

            def pixel(at: int) -> ir.Value:
                base, (which, times) = next((i, STEPS[at - base]) for i, base in enumerate(POINTERS) if at - base in STEPS)
                here = bytes_on(pixels[base], builder.mul(steps[which], I64(times))) if times else pixels[base]
                return splat(builder, builder.load(builder.bitcast(here, F32.as_pointer()), align=4))

            def factor(at: int) -> ir.Value:
                here = bytes_on(weights, builder.mul(tap_on, I64(at))) if at else weights
                return load(builder, builder.bitcast(here, F32.as_pointer()), I64(0))

            factors = [factor(at) for at in range(TAPS)]
            for at in read:
                scalar = pixel(at)
                for m in range(max(0, at - TAPS + 1), min(at, STRETCH - 1) + 1):
                    sums[m] = fma(builder, scalar, factors[at - m], sums[m])
            close_k([*sums, *(bytes_on(each, I64(4)) for each in pixels), bytes_on(weights, I64(4 * LANES))])
            close_rows(carried[:STRETCH])
            places = [builder.add(c_at, builder.mul(c_pixel, I64(m))) for m in range(STRETCH)]

            def finished(finish: int) -> list[ir.Value]:
                if finish == RELU:
                    return [maximum(builder, value, zeros()) for value in totals]
                if finish == MASK:
                    gates = [load(builder, e, builder.add(e_at, builder.mul(e_pixel, I64(m)))) for m in range(STRETCH)]
                    return [
                        builder.select(builder.fcmp_ordered(">", gate, zeros()), value, zeros()) for gate, value in zip(gates, totals, strict=True)
                    ]
                return totals

            for where, value in zip(places, chosen(builder, finish, (STORE, RELU, MASK), finished), strict=True):
                store(builder, c, where, value)
            return context.get_dummy_value()

        return signature, emit

    return stretch


_stretch = make_stretch(0, 0)
_first_stretch = make_stretch(TAPS - 1, 0)
_last_stretch = make_stretch(0, TAPS - 1)


@inner
def convolve(source, x, zeros, weights, w_at, target, y, biases, bias_at, gates, gate, finish, row_range, panel):  # type: ignore[no-untyped-def]
    """As conv.convolve, for one panel and whole rows in a range: kernels of TAPS columns and rows, stride 1, rows of STRETCH pixels or more.

    zeros : how many rows and columns of zeros x begins with, and how many rows and columns that are none follow them, (3,).
    """
    border, height, width = zeros[0], zeros[1], zeros[2]
    channels, columns = x[CHANNELS], y[WIDTH_]
    a_row = TAPS * channels * WIDTH  # of weights
    w_at += panel * TAPS * a_row
    at = panel * WIDTH
    start = BIAS if bias_at >= 0 else ZERO
    for line in range(row_range[0], row_range[1]):
        sample, row = divmod(line, y[HEIGHT])
        # rows of a patch that are zeros add nothing
        first, last = max(0, border - row), min(TAPS, border + height - row)
        a_at = x[OFFSET] + sample * x[SAMPLE] + (row + first) * x[ROW]
        c_at = y[OFFSET] + sample * y[SAMPLE] + row * y[ROW] + at
        e_at = gate[OFFSET] + sample * gate[SAMPLE] + row * gate[ROW] + at
        for piece in range(0, columns, STRETCH):
            column = min(piece, columns - STRETCH)
            left = (source, a_at + column * x[PIXEL], x[ROW], x[PIXEL])
            right = (weights, w_at + first * a_row, a_row, channels * WIDTH)
            result = (target, c_at + column * y[PIXEL], y[PIXEL])
            mask = (gates, e_at + column * gate[PIXEL], gate[PIXEL])
            if column == 0 and border >= TAPS - 1:
                _first_stretch(left, right, (channels, last - first), result, (start, finish), (biases, bias_at + at), mask)
            elif column + STRETCH >= border + width:
                _last_stretch(left, right, (channels, last - first), result, (start, finish), (biases, bias_at + at), mask)
            else:
                _stretch(left, right, (channels, last - first), result, (start, finish), (biases, bias_at + at), mask)
