"""The operations of a program. All take (operands, memory, call) and give (loss, right answers).

Operands begin with three views (views.py; an unused one is zeros). What follows them is said in
each docstring, in order; plan.py writes them in that order. Kernels do the arithmetic; an
operation says which part of it is this thread's.
"""

from __future__ import annotations

from ...ops.compiled import compiled
from . import conv, elementwise, fold, losses, pixels, thin, update
from .emit import LANES
from .program import PACKED
from .sharing import share
from .views import FIELDS, HEIGHT, WIDTH_


@compiled(nogil=True)
def _views(operands):  # type: ignore[no-untyped-def]
    return operands[:FIELDS], operands[FIELDS : 2 * FIELDS], operands[2 * FIELDS : 3 * FIELDS], operands[3 * FIELDS :]


@compiled(nogil=True)
def _sgd_step(memory, step):  # type: ignore[no-untyped-def]
    """Rate, clip and decay of SGD, for gradients that step the weights at once."""
    return memory.numbers[step.number, 0], step.clip, memory.numbers[step.number, 3]


@compiled(nogil=True)
def _images(x, y, z, rows, n):  # type: ignore[no-untyped-def]
    """How many images an instruction's views hold; samples as pixels are one image of one row that is n pixels wide."""
    if not rows:
        return n
    x[WIDTH_] = n
    y[WIDTH_] = n
    z[WIDTH_] = n
    return 1


@compiled(nogil=True)
def gather(operands, memory, call):  # type: ignore[no-untyped-def]
    """y; channels."""
    y, _, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    samples = call.samples
    elementwise.gather(samples.u8, samples.f32, call.indices, samples.scale, memory.activations[call.slot], y, more[0], first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def _gather_from(y, features, memory, call):  # type: ignore[no-untyped-def]
    """This part's samples, to rows of y."""
    first, last = share(call.n, call.part, call.parts)
    samples = call.samples
    elementwise.gather_rows(samples.u8, samples.f32, call.indices, samples.scale, memory.activations[call.slot], y, features, first, last)


@compiled(nogil=True)
def gather_rows(operands, memory, call):  # type: ignore[no-untyped-def]
    """y; features."""
    y, _, _, more = _views(operands)
    _gather_from(y, more[0], memory, call)
    return 0.0, 0.0


@compiled(nogil=True)
def convolve(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y, gate; samples as pixels, kernel rows, kernel columns, stride, weight buffer, weights, bias, finish, panels, split by panels."""
    x, y, gate, more = _views(operands)
    pixels = _images(x, y, gate, more[0], call.n) * y[HEIGHT] * y[WIDTH_]
    panels = more[8]
    if more[9]:
        pixel_range, panel_range = (0, pixels), share(panels, call.part, call.parts)
    else:
        pixel_range, panel_range = share(pixels, call.part, call.parts), (0, panels)
    activations = memory.activations[call.slot]
    weights = memory.packed if more[4] == PACKED else memory.weights
    conv.convolve(
        memory.offsets[call.thread], activations, x, weights, more[5], more[1:3], more[3],
        activations, y, memory.weights, more[6], activations, gate, more[7], pixel_range, panel_range,
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def weight_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy; samples as pixels, kernel rows, kernel columns, stride, gradient, tiles, whether to step the weights instead."""
    x, dy, unused, more = _views(operands)
    images = _images(x, dy, unused, more[0], call.n)
    steps = more[6] != 0
    activations = memory.activations[call.slot]
    conv.weight_gradient(
        memory.offsets[call.thread], activations, x, more[1:3], more[3], activations, dy, images,
        memory.weights if steps else memory.gradients[call.slot], more[4], call.add, share(more[5], call.part, call.parts),
        steps, _sgd_step(memory, call.step),
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def bias_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy; samples as pixels, gradient, channels."""
    dy, unused, another, more = _views(operands)
    images = _images(dy, unused, another, more[0], call.n)
    first, last = share(more[2], call.part, call.parts)
    conv.bias_gradient(memory.activations[call.slot], dy, images, memory.gradients[call.slot], more[1], call.add, first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def transpose(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; weights, kernel rows, kernel columns, inputs, outputs, target, blocks."""
    more = _views(operands)[3]
    conv.transpose(memory.weights, more[0], more[1:3], more[3], more[4], memory.packed, more[5], share(more[6], call.part, call.parts))
    return 0.0, 0.0


@compiled(nogil=True)
def fold_weights(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; weights, inputs, panels, target."""
    more = _views(operands)[3]
    fold.fold(memory.weights, more[0], more[1], more[2], memory.packed, more[3], share(4 * more[2], call.part, call.parts))
    return 0.0, 0.0


@compiled(nogil=True)
def transpose_folded(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; folded weights, inputs, outputs, target, blocks."""
    more = _views(operands)[3]
    fold.fold_transpose(memory.packed, more[0], more[1], more[2], memory.packed, more[3], share(more[4], call.part, call.parts))
    return 0.0, 0.0


@compiled(nogil=True)
def unfold_gradients(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; folded gradients, inputs, panels, gradient."""
    more = _views(operands)[3]
    gradients = memory.gradients[call.slot]
    fold.unfold(gradients, more[0], more[1], more[2], gradients, more[3], share(more[2], call.part, call.parts))
    return 0.0, 0.0


@compiled(nogil=True)
def thin_forward(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; weights, pitch, outputs, bias, whether a ReLU follows, (unused)."""
    x, y, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    thin.forward(
        memory.offsets[call.thread], memory.scratch[call.thread], activations, x, memory.weights, more[0], more[1], more[2],
        activations, y, memory.weights, more[3], more[4], first, last,
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def _reads_bytes(samples, features):  # type: ignore[no-untyped-def]
    """Whether a thin first layer can work on the bytes themselves."""
    return samples.u8.shape[0] > 0 and features % LANES == 0


@compiled(nogil=True)
def enter_thin_forward(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; weights, pitch, outputs, bias, whether a ReLU follows, features. Samples that are not bytes are gathered to x first."""
    x, y, _, more = _views(operands)
    samples = call.samples
    if not _reads_bytes(samples, more[5]):
        _gather_from(x, more[5], memory, call)
        return thin_forward(operands, memory, call)
    first, last = share(call.n, call.part, call.parts)
    pixels.forward(
        memory.offsets[call.thread], memory.scratch[call.thread], samples.u8, call.indices, samples.scale, memory.weights, more[0], more[1], more[5],
        more[2], memory.activations[call.slot], y, memory.weights, more[3], more[4], first, last,
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def enter_thin_weight_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy; gradient, pitch, outputs, panels, whether to step the weights instead, features."""
    _, dy, _, more = _views(operands)
    samples = call.samples
    if not _reads_bytes(samples, more[5]):
        return thin_weight_gradient(operands, memory, call)
    steps = more[4] != 0
    pixels.weight_gradient(
        memory.offsets[call.thread], samples.u8, call.indices, samples.scale, more[5], memory.activations[call.slot], dy, call.n,
        memory.weights if steps else memory.gradients[call.slot], more[0], more[1], more[2], call.add, share(more[3], call.part, call.parts),
        steps, _sgd_step(memory, call.step),
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def thin_input_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx, gate; weights, pitch, outputs, whether to mask by the gate."""
    dy, dx, gate, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    thin.input_gradient(
        memory.offsets[call.thread], activations, dy, memory.weights, more[0], more[1], more[2],
        activations, dx, activations, gate, more[3], first, last,
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def thin_weight_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dy; gradient, pitch, outputs, panels, whether to step the weights instead."""
    x, dy, _, more = _views(operands)
    steps = more[4] != 0
    activations = memory.activations[call.slot]
    thin.weight_gradient(
        memory.offsets[call.thread], activations, x, activations, dy, call.n,
        memory.weights if steps else memory.gradients[call.slot], more[0], more[1], more[2], call.add, share(more[3], call.part, call.parts),
        steps, _sgd_step(memory, call.step),
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def relu(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y."""
    x, y, _, _ = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.relu(activations, x, activations, y, first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def relu_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """y, dy, dx."""
    y, dy, dx, _ = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.relu_gradient(activations, y, activations, dy, activations, dx, first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def pool(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; winners, size, stride."""
    x, y, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.pool(activations, x, activations, y, memory.winners[call.slot], more[0], more[1], more[2], first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def pool_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx, y; winners, size, stride, whether a ReLU stands before the pool."""
    dy, dx, y, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    winners = memory.winners[call.slot]
    elementwise.pool_gradient(activations, dy, winners, more[0], more[1], more[2], activations, y, more[3], activations, dx, first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def upsample(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; scale."""
    x, y, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.upsample(activations, x, activations, y, more[0], first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def upsample_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx; scale."""
    dy, dx, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.upsample_gradient(activations, dy, activations, dx, more[0], first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def flatten(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, y; channels."""
    x, y, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.flatten(activations, x, activations, y, more[0], first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def unflatten(operands, memory, call):  # type: ignore[no-untyped-def]
    """dy, dx; channels."""
    dy, dx, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    elementwise.unflatten(activations, dy, activations, dx, more[0], first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def cross_entropy(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, dx; classes."""
    x, dx, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    labels = call.samples.labels
    loss, correct = losses.cross_entropy(activations, x, labels, call.indices, more[0], activations, dx, call.inverse, first, last)
    return loss, float(correct)


@compiled(nogil=True)
def cross_entropy_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `cross_entropy`, without loss and right answers."""
    x, dx, _, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    labels = call.samples.labels
    losses.cross_entropy_gradient(activations, x, labels, call.indices, more[0], activations, dx, call.inverse, first, last)
    return 0.0, 0.0


@compiled(nogil=True)
def squared_error(operands, memory, call):  # type: ignore[no-untyped-def]
    """x, goal, dx; channels."""
    x, goal, dx, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    return losses.squared_error(activations, x, activations, goal, more[0], activations, dx, call.inverse, first, last), 0.0


@compiled(nogil=True)
def squared_error_gradient(operands, memory, call):  # type: ignore[no-untyped-def]
    """As `squared_error`, without the loss."""
    x, goal, dx, more = _views(operands)
    first, last = share(call.n, call.part, call.parts)
    activations = memory.activations[call.slot]
    losses.squared_error_gradient(activations, x, activations, goal, more[0], activations, dx, call.inverse, first, last)
    return 0.0, 0.0


#: What takes the place of a loss in steps that report none.
WITHOUT_LOSS = {cross_entropy: cross_entropy_gradient, squared_error: squared_error_gradient}


@compiled(nogil=True)
def sgd(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; first, last + 1."""
    more = _views(operands)[3]
    first, last = share(more[1] - more[0], call.part, call.parts)
    update.sgd(
        memory.weights, memory.gradients, call.add, memory.slots, memory.scratch[call.thread], memory.numbers[call.step.number], call.step.clip,
        more[0] + first, more[0] + last,
    )  # fmt: skip
    return 0.0, 0.0


@compiled(nogil=True)
def by_rule(operands, memory, call):  # type: ignore[no-untyped-def]
    """No views; first, last + 1. The optimizer is the call's."""
    more = _views(operands)[3]
    first, last = share(more[1] - more[0], call.part, call.parts)
    update.by_rule(
        call.step.rule, memory.weights, memory.gradients, call.add, memory.slots, memory.scratch[call.thread],
        memory.numbers[call.step.number], call.step.clip, more[0] + first, more[0] + last,
    )  # fmt: skip
    return 0.0, 0.0
