"""The operations of a program. All take (operands, memory, call) and give (loss, right answers). Those that a net needs
are compiled.

Operands begin with three views (views.py; an unused one is zeros). What follows them is said in
each docstring, in order; plan.py writes them in that order. Kernels do the arithmetic; an
operation says which part of it is this thread's.
"""

from __future__ import annotations

from ..compiler.functions import inner
from ..compiler.vectors import TOGETHER, WIDTH
from ..program.access import bytes_2d, cut, floats, floats_2d, int32s, int64s
from ..program.job import OPERANDS
from ..program.memory import (
    ACTIVATIONS,
    F32,
    GRADIENTS,
    INDICES,
    LABELS,
    NUMBERS,
    OFFSETS,
    PACKED,
    SCRATCH,
    SLOTS,
    U8,
    WEIGHTS,
    WINNERS,
)
from ..program.views import FIELDS, HEIGHT, WIDTH_
from ..threads.sharing import share
from . import convolution as conv
from . import elementwise, losses, update
from . import few_outputs as thin
from . import first_layer_bytes as pixels
from . import fused_update as stepping
from . import pixel_runs as stretches
from . import upsampling as fold
from .prefetch import next_samples
from .tile_sizes import STRETCH

# where an instruction's views begin, and what follows them, of which there are REST numbers
X, Y, Z, MORE = 0, FIELDS, 2 * FIELDS, 3 * FIELDS
REST = OPERANDS - 1 - MORE


@inner
def _gradients(memory, call, steps):  # type: ignore[no-untyped-def]
    """Where a weight gradient goes: to this share's gradients, or, where it steps the weights at once, to the weights."""
    return floats(memory, WEIGHTS if steps else GRADIENTS, 0 if steps else call.slot)


@inner
def _sgd_step(memory, call):  # type: ignore[no-untyped-def]
    """Rate, clip and decay of SGD, for gradients that step the weights at once."""
    numbers = floats(memory, NUMBERS, call.step)
    return numbers[0], call.settings.clip, numbers[3]


@inner
def _images(x, y, z, rows, n):  # type: ignore[no-untyped-def]
    """How many images an instruction's views hold; samples as pixels are one image of one row that is n pixels wide."""
    if rows:
        x[WIDTH_] = n
        y[WIDTH_] = n
        z[WIDTH_] = n
    return 1 if rows else n


def gather(operands, memory, call):  # type: ignore[no-untyped-def]
    """y; channels."""
    first, last = share(call.n, call.part, call.parts)
    elementwise.gather(
        bytes_2d(memory, U8), floats_2d(memory, F32), cut(int64s(memory, INDICES, 0), call.first, call.n), call.settings.scale,
        floats(memory, ACTIVATIONS, call.slot), cut(operands, X, FIELDS), operands[MORE], first, last,
    )  # fmt: skip
    return 0.0, 0.0


@inner
def _gather_rows(y, features, shares, memory, call):  # type: ignore[no-untyped-def]
    """This part's samples, to rows of y, and those of the parts behind it, until they are `shares` parts'."""
    for i in range(shares):
        first, last = share(call.n, (call.part + i) % call.parts, call.parts)
        elementwise.gather_rows(
            bytes_2d(memory, U8), floats_2d(memory, F32), cut(int64s(memory, INDICES, 0), call.first, call.n), call.settings.scale,
            floats(memory, ACTIVATIONS, call.slot), y, features, first, last,
        )  # fmt: skip


def gather_rows(operands, memory, call):  # type: ignore[no-untyped-def]
    """y; features, whether it is this part's own copy of all samples: those of the others last, which they have asked
    memory for meanwhile.
    """
    _gather_rows(cut(operands, X, FIELDS), operands[MORE], call.parts if operands[MORE + 1] != 0 else 1, memory, call)
    return 0.0, 0.0


@inner
def _convolve(operands, memory, call):  # type: ignore[no-untyped-def]
    x, y, gate, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    pixels = _images(x, y, gate, more[0], call.n) * y[HEIGHT] * y[WIDTH_]
    by_panel = more[9] != 0
    mine = share(more[8] if by_panel else pixels, call.part, call.parts)
    pixel_range = (0, pixels) if by_panel else mine
    panel_range = mine if by_panel else (0, more[8])
    activations = floats(memory, ACTIVATIONS, call.slot)
    conv.convolve(
        int64s(memory, OFFSETS, call.thread), activations, x, floats(memory, more[4], 0), more[5], cut(more, 1, 2), more[3],
        activations, y, floats(memory, WEIGHTS, 0), more[6], activations, gate, more[7], pixel_range, panel_range,
    )  # fmt: skip


def convolve(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y, gate; samples as pixels, kernel rows, kernel columns, stride, array of the weights, weights, bias, finish,
    panels, split by panels.
    """
    _convolve(operands, memory, call)
    return 0.0, 0.0


def multiply(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `convolve`, of a Linear layer and one panel: by stretches where there are samples for one, to the same bits."""
    x, y, gate, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    first, last = share(call.n, call.part, call.parts)
    if last - first < STRETCH:
        _convolve(operands, memory, call)
        return 0.0, 0.0
    activations = floats(memory, ACTIVATIONS, call.slot)
    stretches.multiply(
        activations,
        x,
        floats(memory, more[4], 0),
        more[5],
        activations,
        y,
        floats(memory, WEIGHTS, 0),
        more[6],
        activations,
        gate,
        more[7],
        first,
        last,
    )
    return 0.0, 0.0


def stretched_convolve(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y, gate; zeros before x, its rows, its columns, array of the weights, weights, bias, finish, first panel, last
    + 1, whether in pairs.
    """
    x, y, gate, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    activations = floats(memory, ACTIVATIONS, call.slot)
    stretches.convolve(
        activations, x, cut(more, 0, 3), floats(memory, more[3], 0), more[4], activations, y, floats(memory, WEIGHTS, 0), more[5],
        activations, gate, more[6], share(call.n * y[HEIGHT], call.part, call.parts), cut(more, 7, 3),
    )  # fmt: skip
    return 0.0, 0.0


@inner
def _rows_and_panels(rows, panels, by_panel, call):  # type: ignore[no-untyped-def]
    """This part's ranges of a product's rows (tiles of them, or samples) and panels: a share of the one, and all of the
    other.
    """
    mine = share(panels if by_panel else rows, call.part, call.parts)
    return ((0, rows), mine) if by_panel else (mine, (0, panels))


@inner
def _tiles(rows, panels):  # type: ignore[no-untyped-def]
    """How many tiles of ROWS rows and TOGETHER panels cover these ranges, of rows of tiles and of panels."""
    return (rows[1] - rows[0]) * ((panels[1] - panels[0] + TOGETHER - 1) // TOGETHER)


@inner
def _own_panels(count, call):  # type: ignore[no-untyped-def]
    """This part's share, in whole panels, of `count` channels or weights: those of a panel are one thread's in every
    instruction divided so.
    """
    first, last = share(count // WIDTH, call.part, call.parts)
    return first * WIDTH, last * WIDTH


def weight_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy; samples as pixels, kernel rows, kernel columns, stride, gradient, tiles, panels, split by panels, whether
    to step the weights instead, asks.
    """
    x, dy, more = cut(operands, X, FIELDS), cut(operands, Y, FIELDS), cut(operands, MORE, REST)
    tiles, panels = _rows_and_panels(more[5], more[6], more[7] != 0, call)
    images = _images(x, dy, cut(operands, Z, FIELDS), more[0], call.n)
    steps = more[8] != 0
    activations = floats(memory, ACTIVATIONS, call.slot)
    conv.weight_gradient(
        int64s(memory, OFFSETS, call.thread), activations, x, cut(more, 1, 2), more[3], activations, dy, images,
        _gradients(memory, call, steps), more[4], call.add, tiles, panels, steps, _sgd_step(memory, call),
        next_samples(more[9], memory, call, _tiles(tiles, panels)),
    )  # fmt: skip
    return 0.0, 0.0


def weight_step(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy, of a Linear layer; weights, tiles, panels, split by panels, asks. The optimizer's loop steps the weights,
    and no gradient is stored.
    """
    x, dy, more = cut(operands, X, FIELDS), cut(operands, Y, FIELDS), cut(operands, MORE, REST)
    tiles, panels = _rows_and_panels(more[1], more[2], more[3] != 0, call)
    stepping.weight_step(
        int64s(memory, OFFSETS, call.thread), floats(memory, ACTIVATIONS, call.slot), x, dy, call.n, floats(memory, SCRATCH, call.thread),
        floats(memory, WEIGHTS, 0), more[0], floats(memory, SLOTS, 0), tiles, panels, call.settings,
        floats(memory, NUMBERS, call.step), next_samples(more[4], memory, call, _tiles(tiles, panels)),
    )  # fmt: skip
    return 0.0, 0.0


def stretched_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy, of a convolution of TAPS x TAPS weights, stride 1 and one panel; gradient of the weights, of the bias. All
    of it is this part's.
    """
    more, activations = cut(operands, MORE, REST), floats(memory, ACTIVATIONS, call.slot)
    stretches.weight_gradient(
        activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), call.n, floats(memory, GRADIENTS, call.slot), more[0], more[1], call.add,
    )  # fmt: skip
    return 0.0, 0.0


def bias_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy; samples as pixels, gradient, channels."""
    dy, more = cut(operands, X, FIELDS), cut(operands, MORE, REST)
    images = _images(dy, cut(operands, Y, FIELDS), cut(operands, Z, FIELDS), more[0], call.n)
    first, last = _own_panels(more[2], call)
    activations, gradients = floats(memory, ACTIVATIONS, call.slot), floats(memory, GRADIENTS, call.slot)
    conv.bias_gradient(activations, dy, images, gradients, more[1], call.add, first, last)
    return 0.0, 0.0


def transpose(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; weights, kernel rows, kernel columns, inputs, outputs, target, blocks."""
    more, weights, packed = cut(operands, MORE, REST), floats(memory, WEIGHTS, 0), floats(memory, PACKED, 0)
    conv.transpose(
        weights, more[0], cut(more, 1, 2), more[3], more[4], packed, more[5], share(more[6], call.part, call.parts)
    )
    return 0.0, 0.0


def fold_weights(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; weights, inputs, panels, target."""
    more, weights, packed = cut(operands, MORE, REST), floats(memory, WEIGHTS, 0), floats(memory, PACKED, 0)
    fold.fold(weights, more[0], more[1], more[2], packed, more[3], share(4 * more[2], call.part, call.parts))
    return 0.0, 0.0


def transpose_folded(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; folded weights, inputs, outputs, target, blocks."""
    more, packed = cut(operands, MORE, REST), floats(memory, PACKED, 0)
    fold.fold_transpose(packed, more[0], more[1], more[2], packed, more[3], share(more[4], call.part, call.parts))
    return 0.0, 0.0


def unfold_gradients(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; folded gradients, inputs, panels, gradient."""
    more, gradients = cut(operands, MORE, REST), floats(memory, GRADIENTS, call.slot)
    fold.unfold(gradients, more[0], more[1], more[2], gradients, more[3], share(more[2], call.part, call.parts))
    return 0.0, 0.0


@inner
def _thin_forward(operands, memory, call):  # type: ignore[no-untyped-def]
    x, y, more = cut(operands, X, FIELDS), cut(operands, Y, FIELDS), cut(operands, MORE, REST)
    first, last = share(call.n, call.part, call.parts)
    activations, weights = floats(memory, ACTIVATIONS, call.slot), floats(memory, WEIGHTS, 0)
    thin.forward(
        int64s(memory, OFFSETS, call.thread), activations, x, weights, more[0], more[1], more[2],
        activations, y, weights, more[3], more[4], first, last,
    )  # fmt: skip


def thin_forward(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; weights, pitch, outputs, bias, whether a ReLU follows, (unused)."""
    _thin_forward(operands, memory, call)
    return 0.0, 0.0


def enter_thin_forward(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; weights, pitch, outputs, bias, whether a ReLU follows, features. The samples are bytes, and read where they
    lie.
    """
    more, weights = cut(operands, MORE, REST), floats(memory, WEIGHTS, 0)
    first, last = share(call.n, call.part, call.parts)
    pixels.forward(
        int64s(memory, OFFSETS, call.thread), bytes_2d(memory, U8), cut(int64s(memory, INDICES, 0), call.first, call.n),
        call.settings.scale, weights, more[0], more[1], more[5], more[2],
        floats(memory, ACTIVATIONS, call.slot), cut(operands, Y, FIELDS), weights, more[3], more[4], first, last,
    )  # fmt: skip
    return 0.0, 0.0


def gather_thin_forward(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `enter_thin_forward`, of any samples: they are gathered to x first."""
    _gather_rows(cut(operands, X, FIELDS), operands[MORE + 5], 1, memory, call)
    _thin_forward(operands, memory, call)
    return 0.0, 0.0


def enter_thin_weight_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy; gradient, pitch, outputs, panels, whether to step the weights instead, features. The samples are bytes,
    and read where they lie.
    """
    more = cut(operands, MORE, REST)
    steps = more[4] != 0
    pixels.weight_gradient(
        int64s(memory, OFFSETS, call.thread), bytes_2d(memory, U8), cut(int64s(memory, INDICES, 0), call.first, call.n), call.settings.scale, more[5],
        floats(memory, ACTIVATIONS, call.slot), cut(operands, Y, FIELDS), call.n, _gradients(memory, call, steps),
        more[0], more[1], more[2], call.add, share(more[3], call.part, call.parts), steps, _sgd_step(memory, call),
    )  # fmt: skip
    return 0.0, 0.0


def thin_input_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx, gate; weights, pitch, outputs, whether to mask by the gate, panels, split by panels."""
    dy, dx, gate, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    samples, panels = _rows_and_panels(call.n, more[4], more[5] != 0, call)
    activations = floats(memory, ACTIVATIONS, call.slot)
    thin.input_gradient(
        int64s(memory, OFFSETS, call.thread), activations, dy, floats(memory, WEIGHTS, 0), more[0], more[1], more[2],
        activations, dx, activations, gate, more[3], samples, panels,
    )  # fmt: skip
    return 0.0, 0.0


def thin_weight_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy; gradient, pitch, outputs, panels, whether to step the weights instead."""
    more = cut(operands, MORE, REST)
    steps = more[4] != 0
    activations = floats(memory, ACTIVATIONS, call.slot)
    thin.weight_gradient(
        int64s(memory, OFFSETS, call.thread), activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), call.n,
        _gradients(memory, call, steps), more[0], more[1], more[2], call.add, share(more[3], call.part, call.parts),
        steps, _sgd_step(memory, call),
    )  # fmt: skip
    return 0.0, 0.0


def relu(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    elementwise.relu(activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), first, last)
    return 0.0, 0.0


def relu_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """y, dy, dx."""
    y, dy, dx = cut(operands, X, FIELDS), cut(operands, Y, FIELDS), cut(operands, Z, FIELDS)
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    elementwise.relu_gradient(activations, y, activations, dy, activations, dx, first, last)
    return 0.0, 0.0


def pool(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; winners, size, stride."""
    x, y, more = cut(operands, X, FIELDS), cut(operands, Y, FIELDS), cut(operands, MORE, REST)
    first, last = share(call.n, call.part, call.parts)
    activations, winners = floats(memory, ACTIVATIONS, call.slot), int32s(memory, WINNERS, call.slot)
    elementwise.pool(activations, x, activations, y, winners, more[0], more[1], more[2], first, last)
    return 0.0, 0.0


def pool_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx, y; winners, size, stride, whether a ReLU stands before the pool."""
    dy, dx, y, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    first, last = share(call.n, call.part, call.parts)
    activations, winners = floats(memory, ACTIVATIONS, call.slot), int32s(memory, WINNERS, call.slot)
    elementwise.pool_gradient(
        activations, dy, winners, more[0], more[1], more[2], activations, y, more[3], activations, dx, first, last
    )
    return 0.0, 0.0


def upsample(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; scale."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    elementwise.upsample(
        activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), operands[MORE], first, last
    )
    return 0.0, 0.0


def upsample_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx; scale."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    elementwise.upsample_gradient(
        activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), operands[MORE], first, last
    )
    return 0.0, 0.0


def flatten(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; channels."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    elementwise.flatten(
        activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), operands[MORE], first, last
    )
    return 0.0, 0.0


def unflatten(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx; channels."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    elementwise.unflatten(
        activations, cut(operands, X, FIELDS), activations, cut(operands, Y, FIELDS), operands[MORE], first, last
    )
    return 0.0, 0.0


def cross_entropy(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dx; classes."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    loss, correct = losses.cross_entropy(
        activations, cut(operands, X, FIELDS), int32s(memory, LABELS, 0), cut(int64s(memory, INDICES, 0), call.first, call.n), operands[MORE],
        activations, cut(operands, Y, FIELDS), call.inverse, first, last,
    )  # fmt: skip
    return loss, float(correct)


def cross_entropy_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `cross_entropy`, without loss and right answers."""
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    losses.cross_entropy_gradient(
        activations, cut(operands, X, FIELDS), int32s(memory, LABELS, 0), cut(int64s(memory, INDICES, 0), call.first, call.n), operands[MORE],
        activations, cut(operands, Y, FIELDS), call.inverse, first, last,
    )  # fmt: skip
    return 0.0, 0.0


def squared_error(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, goal, dx; channels."""
    x, goal, dx, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    return losses.squared_error(
        activations, x, activations, goal, more[0], activations, dx, call.inverse, first, last
    ), 0.0


def squared_error_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `squared_error`, without the loss."""
    x, goal, dx, more = (
        cut(operands, X, FIELDS),
        cut(operands, Y, FIELDS),
        cut(operands, Z, FIELDS),
        cut(operands, MORE, REST),
    )
    first, last = share(call.n, call.part, call.parts)
    activations = floats(memory, ACTIVATIONS, call.slot)
    losses.squared_error_gradient(
        activations, x, activations, goal, more[0], activations, dx, call.inverse, first, last
    )
    return 0.0, 0.0


def sgd(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; first, last + 1, of the first of so many lines of weights."""
    more = cut(operands, MORE, REST)
    first, last = _own_panels(more[1] - more[0], call)
    for line in range(more[2]):
        at = more[0] + line * (more[1] - more[0])
        update.sgd(
            floats(memory, WEIGHTS, 0), memory, call.add, floats(memory, SLOTS, 0), floats(memory, SCRATCH, call.thread),
            floats(memory, NUMBERS, call.step), call.settings.clip, at + first, at + last,
        )  # fmt: skip
    return 0.0, 0.0


def by_rule(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `sgd`; the optimizer is the call's."""
    more = cut(operands, MORE, REST)
    first, last = _own_panels(more[1] - more[0], call)
    for line in range(more[2]):
        at = more[0] + line * (more[1] - more[0])
        update.by_rule(
            call.settings.rule, floats(memory, WEIGHTS, 0), memory, call.add, floats(memory, SLOTS, 0), floats(memory, SCRATCH, call.thread),
            floats(memory, NUMBERS, call.step), call.settings.clip, at + first, at + last,
        )  # fmt: skip
    return 0.0, 0.0
