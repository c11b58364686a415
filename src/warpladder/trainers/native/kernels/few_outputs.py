"""Linear layers with few outputs, for which panels of WIDTH columns would be mostly padding.

Shapes: x (samples, inputs), weights (outputs, pitch) as PyTorch stores them, rows padded by zeros to a multiple of
WIDTH; y (samples, outputs) inside rows of WIDTH. Vectors run along the inputs, without transposition.
"""

import numpy as np

from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDE, WIDTH
from ..program.access import (
    activations_of,
    floats,
    gradient_target,
    offsets_of,
    own_samples,
    reader,
    rows_and_panels,
    sgd_numbers,
    share,
)
from ..program.memory import WEIGHTS
from ..program.operands import FewOutputsInputGradientOperands, FewOutputsOperands, FewOutputsWeightGradientOperands
from .dot_products import make_dot
from .matmul_tile import NO_STEP, make_tile
from .samples import copy_rows
from .tile_sizes import ADD, KINDS, MASK, STEP, STORE, ZERO

SAMPLES, OUTPUTS = 2, 10 if WIDE else 5  # a tile of the forward product, and outputs of a gradient's
ROWS = 4 if WIDE else 6  # samples of a tile of the input gradient

_dot = make_dot(SAMPLES, OUTPUTS)
_gradient_tile = make_tile(OUTPUTS, VECTORS, (ZERO, ADD), (STORE, STEP), strided=True)
_lone_gradient_tile = make_tile(OUTPUTS, 1, (ZERO, ADD), (STORE, STEP), strided=True)
_input_tile = make_tile(ROWS, VECTORS, (ZERO,), (STORE, MASK), strided=True)
_lone_input_tile = make_tile(ROWS, 1, (ZERO,), (STORE, MASK), strided=True)

read_few_outputs, read_weight_gradient = reader(FewOutputsOperands), reader(FewOutputsWeightGradientOperands)
_read_input_gradient = reader(FewOutputsInputGradientOperands)


@inner
def relu_floor(it):  # type: ignore[no-untyped-def]
    """Lower limit of an output: 0 for a ReLU, else -inf. The loop has no branch: a ReLU's branch is unpredictable."""
    return np.float32(0) if it.has_relu != 0 else np.float32(-np.inf)


@inner
def weight_rows(at, it, output):  # type: ignore[no-untyped-def]
    """Fill the offsets of the weights of OUTPUTS outputs for `make_dot`; outputs after the last repeat it."""
    for j in range(OUTPUTS):
        at[SAMPLES + j] = it.weights + min(output + j, it.outputs - 1) * it.pitch


@inner
def _forward(it, memory, work):  # type: ignore[no-untyped-def]
    """Compute y = x weights^T + bias for the thread's samples. Padding is zeros, so sums run over the whole pitch."""
    at, a, weights = offsets_of(memory, work), activations_of(memory, work), floats(memory, WEIGHTS, 0)
    floor = relu_floor(it)
    first, last = own_samples(work)
    for sample in range(first, last, SAMPLES):
        for i in range(SAMPLES):
            row = min(sample + i, last - 1)
            at[i] = it.x.offset + row * it.x.sample
            at[SAMPLES + OUTPUTS + i] = it.y.offset + row * it.y.sample
        for output in range(0, it.outputs, OUTPUTS):
            weight_rows(at, it, output)
            bias, result = (weights, it.bias + output), (a, output, min(OUTPUTS, it.outputs - output))
            _dot(a, weights, at, it.pitch, bias, (np.float32(1), floor), result)


def few_outputs(operands, memory, work):  # type: ignore[no-untyped-def]
    """Linear operation of a layer with few outputs, with a fused ReLU."""
    _forward(read_few_outputs(operands), memory, work)
    return 0.0, 0.0


def gather_few_outputs(operands, memory, work):  # type: ignore[no-untyped-def]
    """Operation `few_outputs` of a first layer, which first copies the samples to x."""
    it = read_few_outputs(operands)
    copy_rows(it.x, it.features, 1, memory, work)
    _forward(it, memory, work)
    return 0.0, 0.0


def few_outputs_input_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Input gradient operation: dx = dy weights for the thread's samples or panels of inputs, masked by relu_mask."""
    it = _read_input_gradient(operands)
    at, a, weights = offsets_of(memory, work), activations_of(memory, work), floats(memory, WEIGHTS, 0)
    (first, last), panel_range = rows_and_panels(work.n, it.panels, it.by_panel, work)
    dy, dx, mask, end = it.dy, it.dx, it.relu_mask, panel_range[1] * WIDTH
    span = at.shape[0] // KINDS
    finish = MASK if it.has_mask != 0 else STORE
    for sample in range(first, last, ROWS):
        for i in range(ROWS):
            row = min(sample + i, last - 1)
            at[i] = dy.offset + row * dy.sample
            at[span + i] = dx.offset + row * dx.sample
            at[2 * span + i] = mask.offset + row * mask.sample
        table, left = (at, span, 0), (a, 0, 1, 0)
        for column in range(panel_range[0] * WIDTH, end, VECTORS * LANES):
            right = (weights, it.weights + column, it.pitch, 0, LANES)
            result, ends = (a, column, LANES), (ZERO, a, 0, finish, a, column)
            if TOGETHER > 1 and column + WIDTH == end:
                _lone_input_tile(table, left, right, (it.outputs, 1), result, ends, NO_STEP)
            else:
                _input_tile(table, left, right, (it.outputs, 1), result, ends, NO_STEP)
    return 0.0, 0.0


def few_outputs_weight_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Weight gradient operation: dw = dy^T x for the thread's panels of inputs; or a step of SGD by dw."""
    it, at, a = read_weight_gradient(operands), offsets_of(memory, work), activations_of(memory, work)
    steps = it.steps_weights != 0
    target, step = gradient_target(memory, work, steps), sgd_numbers(memory, work)
    x, dy, span = it.x, it.dy, at.shape[0] // KINDS
    first, last = share(it.panels, work.part, work.parts)
    ends = (ADD if work.add else ZERO, target, 0, STEP if steps else STORE, target, 0)
    for column in range(first * WIDTH, last * WIDTH, VECTORS * LANES):
        for output in range(0, it.outputs, OUTPUTS):
            for i in range(OUTPUTS):
                row = min(output + i, it.outputs - 1)
                at[i] = dy.offset + row
                at[span + i] = it.gradient + row * it.pitch
            left, right = (a, 0, dy.sample, 0), (a, x.offset + column, x.sample, 0, LANES)
            table, result = (at, span, 0), (target, column, LANES)
            if TOGETHER > 1 and column + WIDTH == last * WIDTH:
                _lone_gradient_tile(table, left, right, (work.n, 1), result, ends, step)
            else:
                _gradient_tile(table, left, right, (work.n, 1), result, ends, step)
    return 0.0, 0.0
