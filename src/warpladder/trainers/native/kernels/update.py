"""Optimizer's update of a range of weights, from one gradient or from a gradient of each share of the batch."""

import numpy as np

from ..compiler.functions import call_loop, inner
from ..program.access import cut, floats, reader
from ..program.memory import GRADIENTS, NUMBERS, SCRATCH, SLOTS, WEIGHTS
from ..program.operands import UpdateOperands
from .convolution_gradients import own_panels
from .tile_sizes import UPDATED

_read = reader(UpdateOperands)


@inner
def clip_all(g, clip):  # type: ignore[no-untyped-def]
    """Clip every number of g to [-clip, clip]; clip may be infinite."""
    if clip < np.inf:
        for i in range(g.shape[0]):
            # written so that a NaN stays
            g[i] = clip if g[i] > clip else (-clip if g[i] < -clip else g[i])


@inner
def call_optimizer(memory, work, g, start, stop):  # type: ignore[no-untyped-def]
    """Update weights[start:stop] by g with the optimizer's loop; a slot that the optimizer lacks is an empty slice."""
    weights, slots, numbers = floats(memory, WEIGHTS, 0), floats(memory, SLOTS, 0), floats(memory, NUMBERS, work.step)
    second = weights.shape[0]
    call_loop(
        work.settings.loop, weights[start:stop], g, slots[start:stop], slots[second + start : second + stop], numbers
    )


@inner
def summed(memory, work, shares, start, stop):  # type: ignore[no-untyped-def]
    """Gradient of weights[start:stop], clipped: the sum of the first `shares` shares' gradients, in order."""
    g = cut(floats(memory, SCRATCH, work.thread), 0, stop - start)
    own = cut(floats(memory, GRADIENTS, 0), start, stop - start)
    for i in range(stop - start):
        g[i] = own[i]
    for part in range(1, shares):
        more = cut(floats(memory, GRADIENTS, part), start, stop - start)
        for i in range(stop - start):
            g[i] += more[i]
    clip_all(g, work.settings.clip)
    return g


@inner
def _own_range(it, line, work):  # type: ignore[no-untyped-def]
    """First weight, and the one after the last, of the thread's share of range `line` of the weights."""
    first, last = own_panels(it.last - it.first, work)
    start = it.first + line * (it.last - it.first)
    return start + first, start + last


@inner
def _sgd_step(memory, work, shares, start, stop):  # type: ignore[no-untyped-def]
    """Update weights[start:stop] by SGD, as in optimizers/sgd/loops.py; without momentum there is no slot."""
    numbers, slots = floats(memory, NUMBERS, work.step), floats(memory, SLOTS, 0)
    rate, momentum, nesterov, decay = numbers[0], numbers[1], numbers[2] != 0, numbers[3]
    w = cut(floats(memory, WEIGHTS, 0), start, stop - start)
    g = summed(memory, work, shares, start, stop)
    if decay > 0:
        for i in range(stop - start):
            g[i] += decay * w[i]
    if slots.shape[0] > 0:
        v = cut(slots, start, stop - start)
        for i in range(stop - start):
            v[i] = momentum * v[i] + g[i]
            w[i] -= rate * (g[i] + momentum * v[i] if nesterov else v[i])
    else:
        for i in range(stop - start):
            w[i] -= rate * g[i]


def sgd(operands, memory, work):  # type: ignore[no-untyped-def]
    """SGD update operation, UPDATED weights at a time."""
    it = _read(operands)
    shares = 1 if it.is_summed != 0 else work.add
    for line in range(it.lines):
        first, last = _own_range(it, line, work)
        for start in range(first, last, UPDATED):
            _sgd_step(memory, work, shares, start, min(start + UPDATED, last))
    return 0.0, 0.0


def optimizer_loop(operands, memory, work):  # type: ignore[no-untyped-def]
    """Update operation by the loop of any other optimizer, UPDATED weights at a time."""
    it = _read(operands)
    shares = 1 if it.is_summed != 0 else work.add
    for line in range(it.lines):
        first, last = _own_range(it, line, work)
        for start in range(first, last, UPDATED):
            stop = min(start + UPDATED, last)
            call_optimizer(memory, work, summed(memory, work, shares, start, stop), start, stop)
    return 0.0, 0.0
