"""Convolution as a matrix product that never writes its patches down (implicit GEMM).

Shapes: pixels are a product's rows, output channels its columns, and k runs over (kernel row,
kernel column, input channel). A tile is ROWS pixels by TOGETHER panels. Weights are stored in *panels*
of WIDTH output channels, (panel, kernel row, kernel column, input channel, WIDTH), so that a
tile reads its weights as one stream. A Linear layer is the 1x1 convolution of an image of one
row whose pixels are the samples.

Views are described in views.py; every function takes them as arrays of seven numbers.
"""

from __future__ import annotations

import numpy as np

from ..compiler.functions import inner
from ..compiler.lines import add_up, turned
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDTH
from ..program.views import CHANNELS, HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_
from .matmul_tile import make_tile
from .prefetch import prefetch_lines
from .tile_sizes import (
    ADD,
    BIAS,
    BLOCK,
    BROAD,
    BROAD_ROWS,
    CHUNK,
    KINDS,
    LONE_ROWS,
    MASK,
    RELU,
    ROWS,
    STEP,
    STORE,
    ZERO,
)

#: the settings of a step, for tiles that make none
NO_STEP = (np.float32(0), np.float32(0), np.float32(0))

_tile = make_tile(ROWS, VECTORS, (ZERO, BIAS, ADD), (STORE, RELU, MASK))
_lone_tile = make_tile(LONE_ROWS, 1, (ZERO, BIAS, ADD), (STORE, RELU, MASK))
_gradient_tile = make_tile(ROWS, VECTORS, (ZERO, ADD), (STORE, STEP), strided=True)
_lone_gradient_tile = make_tile(ROWS, 1, (ZERO, ADD), (STORE, STEP), strided=True)
_broad_tile = make_tile(BROAD_ROWS, BROAD, (ZERO, BIAS, ADD), (STORE, RELU, MASK))
_broad_gradient_tile = make_tile(BROAD_ROWS, BROAD, (ZERO, ADD), (STORE, STEP), strided=True)


@inner
def broad_rows(rows):  # type: ignore[no-untyped-def]
    """How many of `rows` rows broad tiles take, so that whole tiles of ROWS take the others: of those the last alone
    may have rows that do not count.

    rows : rows that count; none or less where a thread's range is empty and begins behind the last.
    """
    count = max(0, rows) // BROAD_ROWS
    while count > 0 and ((rows + ROWS - 1) // ROWS * ROWS - count * BROAD_ROWS) % ROWS != 0:
        count -= 1
    return count * BROAD_ROWS


@inner
def in_broad(rows, panel, panel_range):  # type: ignore[no-untyped-def]
    """How many rows of a panel broad tiles take, `rows` or none, and whether their BROAD panels begin with this one.
    The last panels of a range may be fewer.
    """
    which = (panel - panel_range[0]) % BROAD
    if TOGETHER == 1 or panel - which + BROAD > panel_range[1]:
        return 0, False
    return rows, which == 0 and rows > 0


@inner
def _offsets(at, first_pixel, pixels, x, y, gate, stride):  # type: ignore[no-untyped-def]
    """Fill the offset table: for each of `pixels` output pixels where its patch starts in x, and where it lies in y and
    gate.
    """
    span = at.shape[0] // KINDS
    width = y[WIDTH_]
    area = y[HEIGHT] * width
    sample, inside = divmod(first_pixel, area)
    row, column = divmod(inside, width)
    for i in range(pixels):
        at[i] = x[OFFSET] + sample * x[SAMPLE] + (row * x[ROW] + column * x[PIXEL]) * stride
        at[span + i] = y[OFFSET] + sample * y[SAMPLE] + row * y[ROW] + column * y[PIXEL]
        at[2 * span + i] = gate[OFFSET] + sample * gate[SAMPLE] + row * gate[ROW] + column * gate[PIXEL]
        column += 1
        if column == width:
            column = 0
            row += 1
            if row == y[HEIGHT]:
                row = 0
                sample += 1
    # rows of the last tile that should not count repeat the last pixel
    for i in range(pixels, min(pixels + LONE_ROWS - 1, BLOCK)):
        for kind in range(KINDS):
            at[kind * span + i] = at[kind * span + pixels - 1]


@inner
def convolve(
    at,
    source,
    x,
    weights,
    w_at,
    kernel,
    stride,
    target,
    y,
    biases,
    bias_at,
    gates,
    gate,
    finish,
    pixel_range,
    panel_range,
):  # type: ignore[no-untyped-def]
    """y = finish(bias + x * w) for pixels and panels in the given ranges.

    source, x : activations and view of the input; kernel : kernel rows and columns, (2,).
    bias_at : below 0 starts from zero. finish : STORE, RELU, or MASK (keep where gate's activations are above 0).
    """
    channels = x[CHANNELS]
    # pixels without a gap: a kernel row is one run of neighbours, else one run a kernel column
    dense = x[PIXEL] == channels
    length = channels * kernel[1] if dense else channels
    runs = kernel[0] if dense else kernel[1]
    a_run = x[ROW] if dense else x[PIXEL]
    outer = 1 if dense else kernel[0]
    depth = kernel[0] * kernel[1] * channels
    table = (at, at.shape[0] // KINDS)
    for first in range(pixel_range[0], pixel_range[1], BLOCK):
        pixels = min(BLOCK, pixel_range[1] - first)
        _offsets(at, first, pixels, x, y, gate, stride)
        broad = broad_rows(pixels)
        for panel in range(panel_range[0], panel_range[1], TOGETHER):
            taken, begins = in_broad(broad, panel, panel_range)
            lone = TOGETHER > 1 and panel + TOGETHER > panel_range[1]
            column = panel * WIDTH
            for part in range(outer):
                start = ADD if part > 0 else BIAS if bias_at >= 0 else ZERO
                ends = (start, finish if part == outer - 1 else STORE)
                left = (source, part * x[ROW], 1, a_run)
                b_at = w_at + (panel * depth + part * runs * length) * WIDTH
                # neighbours in a panel, or the same places of neighbouring panels
                right = (weights, b_at, WIDTH, length * WIDTH, LANES if TOGETHER == 1 else depth * WIDTH)
                result = (target, column, LANES)
                bias, mask = (biases, bias_at + column), (gates, column)
                if lone:
                    for p in range(0, pixels, LONE_ROWS):
                        _lone_tile(table, p, left, right, (length, runs), result, ends, bias, mask, NO_STEP)
                else:
                    if TOGETHER > 1 and begins:
                        for p in range(0, taken, BROAD_ROWS):
                            _broad_tile(table, p, left, right, (length, runs), result, ends, bias, mask, NO_STEP)
                    for p in range(taken, pixels, ROWS):
                        _tile(table, p, left, right, (length, runs), result, ends, bias, mask, NO_STEP)


@inner
def patch_offsets(at, x, kernel, channels, w_at):  # type: ignore[no-untyped-def]
    """Fill the offset table: for each element of a patch where it lies in x, counted from the patch, and where its
    weights lie in a panel.
    """
    span = at.shape[0] // KINDS
    m = 0
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            for channel in range(channels):
                at[m] = row * x[ROW] + column * x[PIXEL] + channel
                at[span + m] = w_at + m * WIDTH
                m += 1
    # rows of the last tile that should not count repeat the last element
    for extra in range(m, (m + ROWS - 1) // ROWS * ROWS):
        at[extra] = at[m - 1]
        at[span + extra] = at[span + m - 1]


@inner
def weight_gradient(
    at, source, x, kernel, stride, slopes, dy, samples, target, w_at, add, tile_range, panel_range, steps, step, ahead
):  # type: ignore[no-untyped-def]
    """dw (panel, kernel row, kernel column, input channel, WIDTH) = sum over pixels of patch^T dy, for tiles of ROWS
    patch elements and panels in ranges.

    add : whether dw is added to; otherwise it is overwritten.
    steps : whether SGD steps the weights at `target`, with step (rate, clip, decay), and no gradient is stored (one
    chunk of pixels only).
    ahead : what is asked for with every tile meanwhile (prefetch.py).
    """
    channels = x[CHANNELS]
    depth = kernel[0] * kernel[1] * channels
    width = dy[WIDTH_]
    chunk_rows = max(1, CHUNK // width)
    chunk_columns = min(width, CHUNK)
    fresh = not add
    table = (at, at.shape[0] // KINDS)
    patch_offsets(at, x, kernel, channels, w_at)
    begin, end = tile_range[0] * ROWS, tile_range[1] * ROWS
    broad = broad_rows(min(end, depth) - begin)
    next_sample, next_at = 0, 0
    for sample in range(samples):
        for row in range(0, dy[HEIGHT], chunk_rows):
            runs = min(chunk_rows, dy[HEIGHT] - row)
            for column in range(0, width, chunk_columns):
                length = min(chunk_columns, width - column)
                a_add = x[OFFSET] + sample * x[SAMPLE] + (row * x[ROW] + column * x[PIXEL]) * stride
                b_at = dy[OFFSET] + sample * dy[SAMPLE] + row * dy[ROW] + column * dy[PIXEL]
                left = (source, a_add, x[PIXEL] * stride, x[ROW] * stride)
                ends = (ZERO if fresh else ADD, STEP if steps else STORE)
                # panels outside: a panel's gradients are then walked through in the order in which they are stored
                for panel in range(panel_range[0], panel_range[1], TOGETHER):
                    right = (slopes, b_at + panel * WIDTH, dy[PIXEL], dy[ROW], LANES)
                    # neighbours in a panel, or the same places of neighbouring panels
                    result = (target, panel * depth * WIDTH, LANES if TOGETHER == 1 else depth * WIDTH)
                    nothing = (target, 0)
                    lone = TOGETHER > 1 and panel + TOGETHER > panel_range[1]
                    taken, begins = in_broad(broad, panel, panel_range)
                    if TOGETHER > 1 and begins:
                        for m in range(begin, begin + taken, BROAD_ROWS):
                            _broad_gradient_tile(
                                table, m, left, right, (length, runs), result, ends, nothing, nothing, step
                            )
                            for _ in range(BROAD // TOGETHER):  # as often at least as tiles of ROWS in its place would
                                next_sample, next_at = prefetch_lines(ahead, next_sample, next_at)
                    for m in range(begin + taken, end, ROWS):
                        if lone:
                            _lone_gradient_tile(
                                table, m, left, right, (length, runs), result, ends, nothing, nothing, step
                            )
                        else:
                            _gradient_tile(table, m, left, right, (length, runs), result, ends, nothing, nothing, step)
                        next_sample, next_at = prefetch_lines(ahead, next_sample, next_at)
                fresh = False


@inner
def bias_gradient(slopes, dy, samples, target, b_at, add, first, last):  # type: ignore[no-untyped-def]
    """db[first:last] = sum over pixels of dy, channel by channel."""
    whole = first + (last - first) // LANES * LANES
    if not add:
        target[b_at + first : b_at + last] = np.float32(0)
    for sample in range(samples):
        for row in range(dy[HEIGHT]):
            start = dy[OFFSET] + sample * dy[SAMPLE] + row * dy[ROW]
            for channel in range(first, whole, LANES):
                add_up(slopes, start + channel, dy[PIXEL], dy[WIDTH_], target, b_at + channel)
            for channel in range(whole, last):
                for column in range(dy[WIDTH_]):
                    target[b_at + channel] += slopes[start + column * dy[PIXEL] + channel]


@inner
def transpose(weights, w_at, kernel, inputs, outputs, target, t_at, block_range):  # type: ignore[no-untyped-def]
    """Weights for the input gradient: panels of input channels, taps in reverse, k over (tap, output channel).

    weights : (outputs / WIDTH, taps, inputs, WIDTH) to (inputs / WIDTH, taps, outputs, WIDTH); both multiples of WIDTH.
    A block is WIDTH x WIDTH weights of one tap.
    """
    taps = kernel[0] * kernel[1]
    columns = inputs // WIDTH
    for block in range(block_range[0], block_range[1]):
        rest, ci = divmod(block, columns)
        co, tap = divmod(rest, taps)
        source = w_at + ((co * taps + tap) * inputs + ci * WIDTH) * WIDTH
        out = t_at + ((ci * taps + taps - 1 - tap) * outputs + co * WIDTH) * WIDTH
        for i in range(0, WIDTH, LANES):
            for o in range(0, WIDTH, LANES):
                turned(weights, source + i * WIDTH + o, WIDTH, target, out + o * WIDTH + i, WIDTH)
