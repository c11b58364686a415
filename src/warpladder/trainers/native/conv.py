"""Convolution as a matrix product that never writes its patches down (implicit GEMM).

Shapes: pixels are a product's rows, output channels its columns, and k runs over (kernel row,
kernel column, input channel). A tile is 6 pixels by WIDTH channels. Weights are stored in *panels*
of WIDTH output channels, (panel, kernel row, kernel column, input channel, WIDTH), so that a
tile reads its weights as one stream. A Linear layer is the 1x1 convolution of an image of one
row whose pixels are the samples.

Views are described in views.py; every function takes them as arrays of seven numbers.
"""

from __future__ import annotations

import numpy as np

from ...ops.compiled import compiled
from .simd import WIDTH, make_tile
from .views import CHANNELS, HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_

ROWS = 6
BLOCK = 96  # pixels whose offsets are worked out at once; a multiple of ROWS
KINDS = 3  # offset tables: of the patches, of where results go, and of what masks them
CHUNK = 128  # pixels that a weight-gradient tile sums before it goes back to memory

#: the settings of a step, for tiles that make none
NO_STEP = (np.float32(0), np.float32(0), np.float32(0))

# how a convolution ends
STORE, RELU, MASK = range(3)

_zero_store = make_tile(ROWS, 2, "zero", "store")
_zero_mask = make_tile(ROWS, 2, "zero", "mask")
_bias_store = make_tile(ROWS, 2, "bias", "store")
_bias_relu = make_tile(ROWS, 2, "bias", "relu")
_add_store = make_tile(ROWS, 2, "add", "store")
_add_relu = make_tile(ROWS, 2, "add", "relu")
_add_mask = make_tile(ROWS, 2, "add", "mask")
_zero_sgd = make_tile(ROWS, 2, "zero", "sgd")


@compiled(nogil=True, inline="never")
def _offsets(at, first_pixel, pixels, x, y, gate, stride):  # type: ignore[no-untyped-def]
    """Fill the offset table: for each of `pixels` output pixels where its patch starts in x, and where it lies in y and gate."""
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
    for i in range(pixels, (pixels + ROWS - 1) // ROWS * ROWS):
        for kind in range(KINDS):
            at[kind * span + i] = at[kind * span + pixels - 1]


@compiled(nogil=True)
def convolve(at, source, x, weights, w_at, kernel, stride, target, y, biases, bias_at, gates, gate, finish, pixel_range, panel_range):  # type: ignore[no-untyped-def]
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
        for panel in range(panel_range[0], panel_range[1]):
            column = panel * WIDTH
            for part in range(outer):
                begin = part == 0
                end = part == outer - 1
                a_add = part * x[ROW]
                b_at = w_at + (panel * depth + part * runs * length) * WIDTH
                b_run = length * WIDTH
                left = (source, a_add, 1, a_run)
                right = (weights, b_at, WIDTH, b_run)
                result = (target, column)
                for p in range(0, pixels, ROWS):
                    if begin and bias_at >= 0:
                        bias = (biases, bias_at + column)
                        if end and finish == RELU:
                            _bias_relu(table, p, left, right, (length, runs), result, bias, NO_STEP)
                        else:
                            _bias_store(table, p, left, right, (length, runs), result, bias, NO_STEP)
                    elif begin:
                        if end and finish == MASK:
                            _zero_mask(table, p, left, right, (length, runs), result, (gates, column), NO_STEP)
                        else:
                            _zero_store(table, p, left, right, (length, runs), result, (gates, column), NO_STEP)
                    elif end and finish == RELU:
                        _add_relu(table, p, left, right, (length, runs), result, (gates, column), NO_STEP)
                    elif end and finish == MASK:
                        _add_mask(table, p, left, right, (length, runs), result, (gates, column), NO_STEP)
                    else:
                        _add_store(table, p, left, right, (length, runs), result, (gates, column), NO_STEP)


@compiled(nogil=True, inline="never")
def _patch_offsets(at, x, kernel, channels, w_at):  # type: ignore[no-untyped-def]
    """Fill the offset table: for each element of a patch where it lies in x, counted from the patch, and where its weights lie in a panel."""
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


@compiled(nogil=True)
def weight_gradient(at, source, x, kernel, stride, slopes, dy, samples, target, w_at, add, tile_range, steps, step):  # type: ignore[no-untyped-def]
    """dw (panel, kernel row, kernel column, input channel, WIDTH) = sum over pixels of patch^T dy, for tiles of ROWS patch elements in a range.

    add : whether dw is added to; otherwise it is overwritten.
    steps : whether SGD steps the weights at `target`, with step (rate, clip, decay), and no gradient is stored (one chunk of pixels only).
    """
    channels = x[CHANNELS]
    depth = kernel[0] * kernel[1] * channels
    panels = dy[CHANNELS] // WIDTH
    width = dy[WIDTH_]
    chunk_rows = max(1, CHUNK // width)
    chunk_columns = min(width, CHUNK)
    fresh = not add
    table = (at, at.shape[0] // KINDS)
    _patch_offsets(at, x, kernel, channels, w_at)
    for sample in range(samples):
        for row in range(0, dy[HEIGHT], chunk_rows):
            runs = min(chunk_rows, dy[HEIGHT] - row)
            for column in range(0, width, chunk_columns):
                length = min(chunk_columns, width - column)
                a_add = x[OFFSET] + sample * x[SAMPLE] + (row * x[ROW] + column * x[PIXEL]) * stride
                b_at = dy[OFFSET] + sample * dy[SAMPLE] + row * dy[ROW] + column * dy[PIXEL]
                a_k = x[PIXEL] * stride
                a_run = x[ROW] * stride
                # panels outside: a panel's gradients are then walked through in the order in which they are stored
                for panel in range(panels):
                    left = (source, a_add, a_k, a_run)
                    right = (slopes, b_at + panel * WIDTH, dy[PIXEL], dy[ROW])
                    result = (target, panel * depth * WIDTH)
                    for tile in range(tile_range[0], tile_range[1]):
                        m = tile * ROWS
                        if steps:
                            _zero_sgd(table, m, left, right, (length, runs), result, result, step)
                        elif fresh:
                            _zero_store(table, m, left, right, (length, runs), result, result, NO_STEP)
                        else:
                            _add_store(table, m, left, right, (length, runs), result, result, NO_STEP)
                fresh = False


@compiled(nogil=True)
def bias_gradient(slopes, dy, samples, target, b_at, add, first, last):  # type: ignore[no-untyped-def]
    """db[first:last] = sum over pixels of dy, channel by channel."""
    db = target[b_at + first : b_at + last]
    if not add:
        db[:] = 0
    for sample in range(samples):
        for row in range(dy[HEIGHT]):
            for column in range(dy[WIDTH_]):
                start = dy[OFFSET] + sample * dy[SAMPLE] + row * dy[ROW] + column * dy[PIXEL]
                pixel = slopes[start + first : start + last]
                for channel in range(last - first):
                    db[channel] += pixel[channel]


@compiled(nogil=True)
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
        source = weights[w_at + ((co * taps + tap) * inputs + ci * WIDTH) * WIDTH :][: WIDTH * WIDTH]
        out = target[t_at + ((ci * taps + taps - 1 - tap) * outputs + co * WIDTH) * WIDTH :][: WIDTH * WIDTH]
        for i in range(WIDTH):
            for o in range(WIDTH):
                out[o * WIDTH + i] = source[i * WIDTH + o]
