"""The update of a range of weights, from one gradient or from one a thread."""

from __future__ import annotations

import numpy as np

from ...ops.compiled import compiled
from .program import call_rule

BLOCK = 512  # weights at a time, so that their summed gradient stays in the first-level cache


@compiled(nogil=True)
def _summed(gradients, parts, total, clip, start, stop):  # type: ignore[no-untyped-def]
    """The gradient of weights[start:stop], clipped, in the first floats of `total`; the first `parts` rows of gradients are summed in that order."""
    g = total[: stop - start]
    g[:] = gradients[0, start:stop]
    for part in range(1, parts):
        more = gradients[part, start:stop]
        for i in range(stop - start):
            g[i] += more[i]
    if clip < np.inf:
        for i in range(stop - start):
            # written so that a NaN stays
            g[i] = clip if g[i] > clip else (-clip if g[i] < -clip else g[i])
    return g


@compiled(nogil=True)
def sgd(weights, gradients, parts, slots, total, numbers, clip, first, last):  # type: ignore[no-untyped-def]
    """Step weights[first:last] as SGD does; gradients (threads, parameters), of which the first `parts` count.

    slots : the momentum buffer, or empty. total : scratch, (BLOCK,) float32. numbers : of this step, (NUMBERS,).
    """
    rate, momentum, nesterov, decay = numbers[0], numbers[1], numbers[2] != 0, numbers[3]
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        w = weights[start:stop]
        g = _summed(gradients, parts, total, clip, start, stop)
        if decay > 0:
            for i in range(stop - start):
                g[i] += decay * w[i]
        if slots.shape[0] > 0:
            v = slots[start:stop]
            for i in range(stop - start):
                v[i] = momentum * v[i] + g[i]
                w[i] -= rate * (g[i] + momentum * v[i] if nesterov else v[i])
        else:
            for i in range(stop - start):
                w[i] -= rate * g[i]


@compiled(nogil=True)
def by_rule(rule, weights, gradients, parts, slots, total, numbers, clip, first, last):  # type: ignore[no-untyped-def]
    """Step weights[first:last] with the optimizer's loop at the address `rule`; the rest is as in `sgd`.

    slots : up to two, one after the other; behind their end a slice is empty, which the loop is given for a slot that it has not.
    """
    second = weights.shape[0]
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        g = _summed(gradients, parts, total, clip, start, stop)
        call_rule(rule, weights[start:stop], g, slots[start:stop], slots[second + start : second + stop], numbers)
