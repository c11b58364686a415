"""Convolution as a matrix product that never stores its patches (implicit GEMM). A Linear layer is a 1 x 1 convolution
of an image of one row whose pixels are the samples.

Pixels are the product's rows, output channels its columns, and k runs over (kernel row, kernel column, input channel).
A tile is ROWS pixels by TOGETHER panels. Weights are stored in panels of WIDTH output channels, (panel, kernel row,
kernel column, input channel, WIDTH), so that a tile reads its weights as one stream.
"""

from ..compiler.emit import transposed
from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDTH
from ..program.access import activations_of, floats, offsets_of, place, reader, share
from ..program.memory import PACKED, WEIGHTS
from ..program.operands import ConvolveOperands, TransposeOperands
from .matmul_tile import NO_STEP, make_tile
from .tile_sizes import ADD, BIAS, BLOCK, BROAD, BROAD_ROWS, KINDS, LONE_ROWS, MASK, RELU, ROWS, STORE, ZERO

_tile = make_tile(ROWS, VECTORS, (ZERO, BIAS, ADD), (STORE, RELU, MASK))
_lone_tile = make_tile(LONE_ROWS, 1, (ZERO, BIAS, ADD), (STORE, RELU, MASK))
_broad_tile = make_tile(BROAD_ROWS, BROAD, (ZERO, BIAS, ADD), (STORE, RELU, MASK))

read_convolve, _read_transpose = reader(ConvolveOperands), reader(TransposeOperands)


@inner
def broad_rows(rows):  # type: ignore[no-untyped-def]
    """Number of leading rows that broad tiles compute. Tiles of ROWS compute the others; only the last may be padded.

    rows : rows of a thread; 0 or less if its range is empty and begins after the last row.
    """
    count = max(0, rows) // BROAD_ROWS
    while count > 0 and ((rows + ROWS - 1) // ROWS * ROWS - count * BROAD_ROWS) % ROWS != 0:
        count -= 1
    return count * BROAD_ROWS


@inner
def in_broad(rows, panel, panel_range):  # type: ignore[no-untyped-def]
    """Rows of a panel for broad tiles, `rows` or 0, and True if BROAD panels (fewer at the end) begin at it."""
    which = (panel - panel_range[0]) % BROAD
    if TOGETHER == 1 or panel - which + BROAD > panel_range[1]:
        return 0, False
    return rows, which == 0 and rows > 0


@inner
def _fill_offsets(at, first_pixel, pixels, it, width):  # type: ignore[no-untyped-def]
    """Fill the offset tables of `pixels` output pixels: the patch in x, the result in y, and the mask."""
    span = at.shape[0] // KINDS
    area = it.y.height * width
    sample, inside = divmod(first_pixel, area)
    row, column = divmod(inside, width)
    for i in range(pixels):
        at[i] = it.x.offset + sample * it.x.sample + (row * it.x.row + column * it.x.pixel) * it.stride
        at[span + i] = place(it.y, sample, row, column)
        at[2 * span + i] = place(it.relu_mask, sample, row, column)
        column += 1
        if column == width:
            column = 0
            row += 1
            if row == it.y.height:
                row = 0
                sample += 1
    # rows of the last tile that should not count repeat the last pixel
    for i in range(pixels, min(pixels + LONE_ROWS - 1, BLOCK)):
        for kind in range(KINDS):
            at[kind * span + i] = at[kind * span + pixels - 1]


@inner
def convolve_block(it, memory, work, pixels, panel_range):  # type: ignore[no-untyped-def]
    """Compute y = finish(bias + x * weights) for the offset table's first `pixels` entries and a range of panels."""
    at, a = offsets_of(memory, work), activations_of(memory, work)
    weights, biases = floats(memory, it.array, 0), floats(memory, WEIGHTS, 0)
    channels = it.x.channels
    # pixels without a gap: a kernel row is one run of neighbours, else one run a kernel column
    dense = it.x.pixel == channels
    length = channels * it.kernel_columns if dense else channels
    runs = it.kernel_rows if dense else it.kernel_columns
    a_run = it.x.row if dense else it.x.pixel
    outer = 1 if dense else it.kernel_rows
    depth = it.kernel_rows * it.kernel_columns * channels
    span, broad = at.shape[0] // KINDS, broad_rows(pixels)
    # vectors are neighbours in a panel, or the same places of neighbouring panels
    b_vector = LANES if TOGETHER == 1 else depth * WIDTH
    for panel in range(panel_range[0], panel_range[1], TOGETHER):
        taken, begins = in_broad(broad, panel, panel_range)
        lone = TOGETHER > 1 and panel + TOGETHER > panel_range[1]
        column = panel * WIDTH
        for part in range(outer):
            start = ADD if part > 0 else BIAS if it.bias >= 0 else ZERO
            left = (a, part * it.x.row, 1, a_run)
            b_at = it.weights + (panel * depth + part * runs * length) * WIDTH
            right = (weights, b_at, WIDTH, length * WIDTH, b_vector)
            finish = it.finish if part == outer - 1 else STORE
            result, ends = (a, column, LANES), (start, biases, it.bias + column, finish, a, column)
            if lone:
                for p in range(0, pixels, LONE_ROWS):
                    _lone_tile((at, span, p), left, right, (length, runs), result, ends, NO_STEP)
            else:
                if TOGETHER > 1 and begins:
                    for p in range(0, taken, BROAD_ROWS):
                        _broad_tile((at, span, p), left, right, (length, runs), result, ends, NO_STEP)
                for p in range(taken, pixels, ROWS):
                    _tile((at, span, p), left, right, (length, runs), result, ends, NO_STEP)


@inner
def convolve_share(it, memory, work):  # type: ignore[no-untyped-def]
    """Compute a thread's share of a convolution, BLOCK pixels at a time."""
    flat = it.samples_as_pixels != 0
    width = work.n if flat else it.y.width
    pixels = (1 if flat else work.n) * it.y.height * width
    by_panel = it.by_panel != 0
    own = share(it.panels if by_panel else pixels, work.part, work.parts)
    begin, end = (0, pixels) if by_panel else own
    panel_range = own if by_panel else (0, it.panels)
    for first in range(begin, end, BLOCK):
        count = min(BLOCK, end - first)
        _fill_offsets(offsets_of(memory, work), first, count, it, width)
        convolve_block(it, memory, work, count, panel_range)


def convolve(operands, memory, work):  # type: ignore[no-untyped-def]
    """Convolution operation; also a Linear layer, or the input gradient of either."""
    convolve_share(read_convolve(operands), memory, work)
    return 0.0, 0.0


@inner
def _phase_of(tap, size, stride):  # type: ignore[no-untyped-def]
    """Phase of a kernel row or column: taps of the phases before it, its taps, and the index of `tap` among them."""
    phase, number = tap % stride, tap // stride
    before = 0
    for earlier in range(phase):
        before += (size - earlier + stride - 1) // stride
    taps = (size - phase + stride - 1) // stride
    return before, taps, taps - 1 - number


def transpose_weights(operands, memory, work):  # type: ignore[no-untyped-def]
    """Weight transposition for the input gradient, phase by phase (phases.py): panels of input channels, k over (tap
    reversed, output channel).

    (outputs / WIDTH, size, size, inputs, WIDTH) to (inputs / WIDTH, taps, outputs, WIDTH) of each phase of rows and
    columns, in blocks of WIDTH x WIDTH of one tap.
    """
    it, weights, packed = _read_transpose(operands), floats(memory, WEIGHTS, 0), floats(memory, PACKED, 0)
    columns, size = it.inputs // WIDTH, it.size
    first, last = share(it.blocks, work.part, work.parts)
    for block in range(first, last):
        rest, ci = divmod(block, columns)
        co, tap = divmod(rest, size * size)
        source = it.weights + ((co * size * size + tap) * it.inputs + ci * WIDTH) * WIDTH
        rows_before, rows, row = _phase_of(tap // size, size, it.stride)
        columns_before, taps, column = _phase_of(tap % size, size, it.stride)
        phase = (rows_before * size + rows * columns_before) * it.inputs * it.outputs
        out = it.target + phase + (((ci * rows + row) * taps + column) * it.outputs + co * WIDTH) * WIDTH
        for i in range(0, WIDTH, LANES):
            for o in range(0, WIDTH, LANES):
                transposed(weights, source + i * WIDTH + o, WIDTH, packed, out + o * WIDTH + i, WIDTH)
    return 0.0, 0.0
