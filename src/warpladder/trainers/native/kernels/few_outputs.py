"""Linear layers with few outputs, where panels of WIDTH columns would be mostly padding.

Shapes: x (samples, inputs), w (outputs, pitch) as PyTorch stores it, with rows padded by zeros
to `pitch`, a multiple of WIDTH; y (samples, outputs) inside rows of WIDTH. The forward product
runs its vectors along the inputs; the gradients run theirs along the inputs too, so nothing is
ever transposed.
"""

from __future__ import annotations

import numpy as np

from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDE, WIDTH
from ..program.views import OFFSET, SAMPLE
from .convolution import NO_STEP
from .dot_products import make_dot
from .matmul_tile import make_tile
from .tile_sizes import ADD, KINDS, MASK, STEP, STORE, ZERO

SAMPLES, OUTPUTS = 2, 10 if WIDE else 5  # a tile of the forward product, and outputs of a gradient's
ROWS = 4 if WIDE else 6  # samples of a tile of the input gradient

_dot = make_dot(SAMPLES, OUTPUTS)
_gradient_tile = make_tile(OUTPUTS, VECTORS, (ZERO, ADD), (STORE, STEP), strided=True)
_lone_gradient_tile = make_tile(OUTPUTS, 1, (ZERO, ADD), (STORE, STEP), strided=True)
_input_tile = make_tile(ROWS, VECTORS, (ZERO,), (STORE, MASK), strided=True)
_lone_input_tile = make_tile(ROWS, 1, (ZERO,), (STORE, MASK), strided=True)


@inner
def forward(at, source, x, weights, w_at, pitch, outputs, target, y, biases, bias_at, relu, first, last):  # type: ignore[no-untyped-def]
    """y[first:last] = x w^T + b, with a ReLU if asked for. Both paddings of the inputs are zeros, so the sums may run
    over the whole pitch.
    """
    floor = np.float32(0) if relu else np.float32(-np.inf)  # no branch in the loop: nobody can predict a ReLU
    for sample in range(first, last, SAMPLES):
        for i in range(SAMPLES):
            row = min(sample + i, last - 1)
            at[i] = x[OFFSET] + row * x[SAMPLE]
            at[SAMPLES + OUTPUTS + i] = y[OFFSET] + row * y[SAMPLE]
        for output in range(0, outputs, OUTPUTS):
            for j in range(OUTPUTS):
                at[SAMPLES + j] = w_at + min(output + j, outputs - 1) * pitch
            bias, result = (biases, bias_at + output), (target, output)
            _dot(source, weights, at, pitch, bias, np.float32(1), floor, result, min(OUTPUTS, outputs - output))


@inner
def input_gradient(
    at, slopes, dy, weights, w_at, pitch, outputs, target, dx, gates, gate, mask, sample_range, panel_range
):  # type: ignore[no-untyped-def]
    """dx = dy w for samples and for columns in a range of panels; with `mask`, 0 where the gate's activations are not
    above 0.
    """
    first, last = sample_range
    end = panel_range[1] * WIDTH
    span = at.shape[0] // KINDS
    table = (at, span)
    ends = (ZERO, MASK if mask else STORE)
    for sample in range(first, last, ROWS):
        for i in range(ROWS):
            row = min(sample + i, last - 1)
            at[i] = dy[OFFSET] + row * dy[SAMPLE]
            at[span + i] = dx[OFFSET] + row * dx[SAMPLE]
            at[2 * span + i] = gate[OFFSET] + row * gate[SAMPLE]
        left = (slopes, 0, 1, 0)
        for column in range(panel_range[0] * WIDTH, end, VECTORS * LANES):
            right = (weights, w_at + column, pitch, 0, LANES)
            result, nothing = (target, column, LANES), (target, 0)
            if TOGETHER > 1 and column + WIDTH == end:
                _lone_input_tile(table, 0, left, right, (outputs, 1), result, ends, nothing, (gates, column), NO_STEP)
            else:
                _input_tile(table, 0, left, right, (outputs, 1), result, ends, nothing, (gates, column), NO_STEP)


@inner
def weight_gradient(at, source, x, slopes, dy, samples, target, w_at, pitch, outputs, add, panel_range, steps, step):  # type: ignore[no-untyped-def]
    """dw = dy^T x for columns in a range of panels; `add`, `steps` and `step` as in conv.weight_gradient."""
    span = at.shape[0] // KINDS
    table = (at, span)
    ends = (ADD if add else ZERO, STEP if steps else STORE)
    end = panel_range[1] * WIDTH
    for column in range(panel_range[0] * WIDTH, end, VECTORS * LANES):
        for output in range(0, outputs, OUTPUTS):
            for i in range(OUTPUTS):
                row = min(output + i, outputs - 1)
                at[i] = dy[OFFSET] + row
                at[span + i] = w_at + row * pitch
            left = (slopes, 0, dy[SAMPLE], 0)
            right = (source, x[OFFSET] + column, x[SAMPLE], 0, LANES)
            result, nothing = (target, column, LANES), (target, 0)
            if TOGETHER > 1 and column + WIDTH == end:
                _lone_gradient_tile(table, 0, left, right, (samples, 1), result, ends, nothing, nothing, step)
            else:
                _gradient_tile(table, 0, left, right, (samples, 1), result, ends, nothing, nothing, step)
