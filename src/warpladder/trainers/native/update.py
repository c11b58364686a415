"""SGD on a range of weights, from one gradient or from one a thread."""

from __future__ import annotations

import numpy as np

from ...ops.compiled import compiled

BLOCK = 512  # weights at a time, so that their summed gradient stays in the first-level cache


@compiled(nogil=True)
def sgd(weights, gradients, parts, velocity, total, rate, momentum, nesterov, decay, clip, first, last):  # type: ignore[no-untyped-def]
    """Step weights[first:last]; gradients (threads, parameters), of which the first `parts` are summed in that order.

    total : scratch, (BLOCK,) float32.
    """
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        w = weights[start:stop]
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
        if decay > 0:
            for i in range(stop - start):
                g[i] += decay * w[i]
        if momentum > 0:
            v = velocity[start:stop]
            for i in range(stop - start):
                v[i] = momentum * v[i] + g[i]
                w[i] -= rate * (g[i] + momentum * v[i] if nesterov else v[i])
        else:
            for i in range(stop - start):
                w[i] -= rate * g[i]
