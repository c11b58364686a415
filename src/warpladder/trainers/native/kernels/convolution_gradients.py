"""Weight and bias gradients of convolutions and Linear layers, as matrix products of patches and output gradients."""

import numpy as np

from ..compiler.emit import add_up
from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDTH
from ..program.access import (
    activations_of,
    floats,
    gradient_target,
    offsets_of,
    place,
    reader,
    rows_and_panels,
    sgd_numbers,
    share,
)
from ..program.memory import GRADIENTS
from ..program.operands import BiasGradientOperands, WeightGradientOperands
from .convolution import broad_rows, in_broad
from .matmul_tile import make_tile
from .tile_sizes import ADD, BROAD, BROAD_ROWS, CHUNK, KINDS, ROWS, STEP, STORE, ZERO

_tile = make_tile(ROWS, VECTORS, (ZERO, ADD), (STORE, STEP), strided=True)
_lone_tile = make_tile(ROWS, 1, (ZERO, ADD), (STORE, STEP), strided=True)
_broad_tile = make_tile(BROAD_ROWS, BROAD, (ZERO, ADD), (STORE, STEP), strided=True)

_read, _read_bias = reader(WeightGradientOperands), reader(BiasGradientOperands)


@inner
def patch_offsets(at, x, kernel, w_at):  # type: ignore[no-untyped-def]
    """Fill the offsets of a patch's elements in x, relative, and in a weight panel; kernel : (rows, columns)."""
    span = at.shape[0] // KINDS
    m = 0
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            for channel in range(x.channels):
                at[m] = row * x.row + column * x.pixel + channel
                at[span + m] = w_at + m * WIDTH
                m += 1
    # rows of the last tile that should not count repeat the last element
    for extra in range(m, (m + ROWS - 1) // ROWS * ROWS):
        at[extra] = at[m - 1]
        at[span + extra] = at[span + m - 1]


@inner
def _add_chunk(it, memory, work, left, right, extent, bounds):  # type: ignore[no-untyped-def]
    """Multiply a chunk of pixels for a thread's tiles and panels.

    left, right : factors of the tiles, right without its panel and strides between vectors. extent : pixels of a row,
    rows.
    bounds : start and finish of the sums.
    """
    at, target = offsets_of(memory, work), gradient_target(memory, work, it.steps_weights != 0)
    step = sgd_numbers(memory, work)
    depth = it.kernel_rows * it.kernel_columns * it.x.channels
    tile_range, panel_range = rows_and_panels(it.tiles, it.panels, it.by_panel, work)
    first, last = tile_range[0] * ROWS, tile_range[1] * ROWS
    broad, span = broad_rows(min(last, depth) - first), at.shape[0] // KINDS
    dy, b_at, b_k, b_run = right
    ends = (bounds[0], target, 0, bounds[1], target, 0)
    # panels outside: a panel's gradients are then written in the order in which they are stored
    for panel in range(panel_range[0], panel_range[1], TOGETHER):
        factor = (dy, b_at + panel * WIDTH, b_k, b_run, LANES)
        # vectors are neighbours in a panel, or the same places of neighbouring panels
        result = (target, panel * depth * WIDTH, LANES if TOGETHER == 1 else depth * WIDTH)
        lone = TOGETHER > 1 and panel + TOGETHER > panel_range[1]
        taken, begins = in_broad(broad, panel, panel_range)
        if TOGETHER > 1 and begins:
            for m in range(first, first + taken, BROAD_ROWS):
                _broad_tile((at, span, m), left, factor, extent, result, ends, step)
        for m in range(first + taken, last, ROWS):
            if lone:
                _lone_tile((at, span, m), left, factor, extent, result, ends, step)
            else:
                _tile((at, span, m), left, factor, extent, result, ends, step)


def weight_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Weight gradient operation, CHUNK pixels at a time: dw (panel, kernel row, kernel column, input channel, WIDTH) =
    sum over pixels of patch^T dy; or a step of SGD by the gradient of a single chunk, which is then not stored.
    """
    it, a = _read(operands), activations_of(memory, work)
    x, dy, flat = it.x, it.dy, it.samples_as_pixels != 0
    width = work.n if flat else dy.width
    chunk_rows, chunk_columns = max(1, CHUNK // width), min(width, CHUNK)
    fresh = work.add == 0
    finish = STEP if it.steps_weights != 0 else STORE
    patch_offsets(offsets_of(memory, work), x, (it.kernel_rows, it.kernel_columns), it.gradient)
    for sample in range(1 if flat else work.n):
        for row in range(0, dy.height, chunk_rows):
            rows = min(chunk_rows, dy.height - row)
            for column in range(0, width, chunk_columns):
                a_at = x.offset + sample * x.sample + (row * x.row + column * x.pixel) * it.stride
                left = (a, a_at, x.pixel * it.stride, x.row * it.stride)
                right = (a, place(dy, sample, row, column), dy.pixel, dy.row)
                extent = (min(chunk_columns, width - column), rows)
                _add_chunk(it, memory, work, left, right, extent, (ZERO if fresh else ADD, finish))
                fresh = False
    return 0.0, 0.0


def bias_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Bias gradient operation: db = sum over pixels of dy, for the thread's share of whole panels of channels."""
    it, a, target = _read_bias(operands), activations_of(memory, work), floats(memory, GRADIENTS, work.slot)
    dy, flat = it.dy, it.samples_as_pixels != 0
    width = work.n if flat else dy.width
    first, last = own_panels(it.channels, work)
    whole = first + (last - first) // LANES * LANES
    if work.add == 0:
        target[it.gradient + first : it.gradient + last] = np.float32(0)
    for sample in range(1 if flat else work.n):
        for row in range(dy.height):
            start = place(dy, sample, row, 0)
            for channel in range(first, whole, LANES):
                add_up(a, start + channel, dy.pixel, width, target, it.gradient + channel)
            for channel in range(whole, last):
                for column in range(width):
                    target[it.gradient + channel] += a[start + column * dy.pixel + channel]
    return 0.0, 0.0


@inner
def own_panels(count, work):  # type: ignore[no-untyped-def]
    """Range of a thread's share, in whole panels, of `count` channels or weights, equal in all instructions."""
    first, last = share(count // WIDTH, work.part, work.parts)
    return first * WIDTH, last * WIDTH
