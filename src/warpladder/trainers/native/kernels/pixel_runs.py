"""Convolutions of 3 x 3 and stride 1, and small matrix products, in runs of neighbouring pixels (pixel_run_tile.py)."""

from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, WIDTH
from ..program.access import activations_of, floats, own_samples, place, reader, share
from ..program.memory import GRADIENTS, WEIGHTS
from ..program.operands import PixelRunGradientOperands, PixelRunOperands
from .convolution import convolve_share, read_convolve
from .pixel_run_tile import gradient_tile, make_run_tile
from .tile_sizes import BIAS, PAIR_RUN, RUN, TAPS, ZERO

IN_CACHE = 512  # pixels whose gradients stay in the first-level cache while channel after channel is multiplied by them

_run = make_run_tile(TAPS)
_first_run = make_run_tile(TAPS, left=TAPS - 1)
_last_run = make_run_tile(TAPS, right=TAPS - 1)
_pixel_run = make_run_tile(1)
_pair_run = make_run_tile(TAPS, length=PAIR_RUN, vectors=2)

_read, _read_gradient = reader(PixelRunOperands), reader(PixelRunGradientOperands)


@inner
def _convolve_line(it, memory, work, panel, line):  # type: ignore[no-untyped-def]
    """Compute one row of output pixels of a 3 x 3 convolution, for one panel or a pair of panels."""
    a, weights, biases = activations_of(memory, work), floats(memory, it.array, 0), floats(memory, WEIGHTS, 0)
    x, y, mask, border, channels = it.x, it.y, it.relu_mask, it.border, it.x.channels
    pairs = TOGETHER > 1 and it.in_pairs != 0
    sample, row = divmod(line, y.height)
    # rows of a patch that are zeros add nothing
    first, last = max(0, border - row), min(TAPS, border + it.height - row)
    at, b_row = panel * WIDTH, TAPS * channels * WIDTH
    a_at = place(x, sample, row + first, 0)
    c_at, mask_at = place(y, sample, row, 0) + at, place(mask, sample, row, 0) + at
    extent, start = (channels, last - first), BIAS if it.bias >= 0 else ZERO
    length = PAIR_RUN if pairs else RUN
    for run in range(0, y.width, length):
        column = min(run, y.width - length)
        pixels = (a, a_at + column * x.pixel, x.row, x.pixel)
        for lane in range(0, LANES if pairs else WIDTH, LANES):
            b_at = it.weights + (panel * TAPS + first) * b_row + lane
            panels = (weights, b_at, b_row, channels * WIDTH, TAPS * b_row)
            result = (a, c_at + column * y.pixel + lane, y.pixel)
            begin = (start, biases, it.bias + at + lane)
            end = (it.finish, a, mask_at + column * mask.pixel + lane, mask.pixel)
            if TOGETHER > 1 and pairs:
                _pair_run(pixels, panels, extent, result, begin, end)
            elif column == 0 and border >= TAPS - 1:
                _first_run(pixels, panels, extent, result, begin, end)
            elif column + RUN >= border + it.width:
                _last_run(pixels, panels, extent, result, begin, end)
            else:
                _run(pixels, panels, extent, result, begin, end)


def convolve_pixel_runs(operands, memory, work):  # type: ignore[no-untyped-def]
    """Convolution operation for TAPS x TAPS kernels with stride 1, and rows of at least one pixel run."""
    it = _read(operands)
    first, last = share(work.n * it.y.height, work.part, work.parts)
    for panel in range(it.first_panel, it.last_panel, 2 if TOGETHER > 1 and it.in_pairs != 0 else 1):
        for line in range(first, last):
            _convolve_line(it, memory, work, panel, line)
    return 0.0, 0.0


def multiply(operands, memory, work):  # type: ignore[no-untyped-def]
    """Product of a Linear layer of one panel, in runs of samples if there are at least RUN."""
    it = read_convolve(operands)
    first, last = own_samples(work)
    if last - first < RUN:
        convolve_share(it, memory, work)
        return 0.0, 0.0
    a, weights, biases = activations_of(memory, work), floats(memory, it.array, 0), floats(memory, WEIGHTS, 0)
    x, y, mask = it.x, it.y, it.relu_mask
    begin = (BIAS if it.bias >= 0 else ZERO, biases, it.bias)
    for run in range(first, last, RUN):
        sample = min(run, last - RUN)
        pixels = (a, x.offset + sample * x.pixel, 0, x.pixel)
        result = (a, y.offset + sample * y.pixel, y.pixel)
        end = (it.finish, a, mask.offset + sample * mask.pixel, mask.pixel)
        _pixel_run(pixels, (weights, it.weights, 0, 0, 0), (x.channels, 1), result, begin, end)
    return 0.0, 0.0


def weight_gradient_pixel_runs(operands, memory, work):  # type: ignore[no-untyped-def]
    """Weight and bias gradients of a TAPS x TAPS convolution with stride 1 and one panel, by one thread."""
    it, a, target = _read_gradient(operands), activations_of(memory, work), floats(memory, GRADIENTS, work.slot)
    x, dy, channels = it.x, it.dy, it.x.channels
    lines = max(1, IN_CACHE // dy.width)
    fresh = 0 if work.add else 1
    for sample in range(work.n):
        for row in range(0, dy.height, lines):
            rows = min(lines, dy.height - row)
            right = (a, place(dy, sample, row, 0), dy.row, dy.pixel)
            for channel in range(channels):
                left = (a, place(x, sample, row, 0) + channel, x.row, x.pixel)
                result = (target, it.gradient + channel * WIDTH, channels * WIDTH)
                bias = (target, it.bias, 1 if channel == channels - 1 else 0)
                gradient_tile(left, right, (dy.width, rows), result, bias, fresh)
            fresh = 0
    return 0.0, 0.0
