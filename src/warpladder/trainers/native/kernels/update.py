"""The update of a range of weights, from one gradient or from one a thread."""

from __future__ import annotations

import numpy as np

from ..compiler.calls import call_rule
from ..compiler.functions import inner
from ..program.access import cut, floats
from ..program.memory import GRADIENTS
from .tile_sizes import UPDATED


@inner
def clipped(g, clip):  # type: ignore[no-untyped-def]
    """Every number of g brought to [-clip, clip]; clip may be infinite."""
    if clip < np.inf:
        for i in range(g.shape[0]):
            # written so that a NaN stays
            g[i] = clip if g[i] > clip else (-clip if g[i] < -clip else g[i])


@inner
def by_loop(rule, weights, g, slots, numbers, start, stop):  # type: ignore[no-untyped-def]
    """Step weights[start:stop] by g with the optimizer's loop at the address `rule`.

    slots : up to two, one after the other; behind their end a slice is empty, which the loop is given for a slot that
    it has not.
    """
    second = weights.shape[0]
    call_rule(rule, weights[start:stop], g, slots[start:stop], slots[second + start : second + stop], numbers)


@inner
def _summed(memory, parts, total, clip, start, stop):  # type: ignore[no-untyped-def]
    """The gradient of weights[start:stop], clipped, in the first floats of `total`; the first `parts` shares' gradients
    are summed in that order.
    """
    g = cut(total, 0, stop - start)
    own = cut(floats(memory, GRADIENTS, 0), start, stop - start)
    for i in range(stop - start):
        g[i] = own[i]
    for part in range(1, parts):
        more = cut(floats(memory, GRADIENTS, part), start, stop - start)
        for i in range(stop - start):
            g[i] += more[i]
    clipped(g, clip)
    return g


@inner
def sgd(weights, memory, parts, slots, total, numbers, clip, first, last):  # type: ignore[no-untyped-def]
    """Step weights[first:last] as SGD does; of the gradients in memory those of the first `parts` shares count.

    slots : the momentum buffer, or empty. total : scratch, (UPDATED,) float32. numbers : of this step, (NUMBERS,).
    """
    rate, momentum, nesterov, decay = numbers[0], numbers[1], numbers[2] != 0, numbers[3]
    for start in range(first, last, UPDATED):
        stop = min(start + UPDATED, last)
        w = cut(weights, start, stop - start)
        g = _summed(memory, parts, total, clip, start, stop)
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


@inner
def by_rule(rule, weights, memory, parts, slots, total, numbers, clip, first, last):  # type: ignore[no-untyped-def]
    """Step weights[first:last] with the optimizer's loop at the address `rule`; slots as in `by_loop`, the rest as in
    `sgd`.
    """
    for start in range(first, last, UPDATED):
        stop = min(start + UPDATED, last)
        g = _summed(memory, parts, total, clip, start, stop)
        by_loop(rule, weights, g, slots, numbers, start, stop)
