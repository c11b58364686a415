"""Scaling of all gradients to an L2 norm before the update: sums of squares by part, then the factor in each part."""

import math

import numpy as np

from ....ops.update.reference import EPSILON
from ..program.access import cut, doubles, floats, reader
from ..program.memory import GRADIENTS, SQUARES
from ..program.operands import NormOperands
from .convolution_gradients import own_panels
from .tile_sizes import UPDATED
from .update import summed

_read = reader(NormOperands)


def sum_squares(operands, memory, work):  # type: ignore[no-untyped-def]
    """Operation that adds all shares' gradients into the first share's, and the squares of the part's weights."""
    it = _read(operands)
    first, last = own_panels(it.last - it.first, work)
    total = 0.0
    for start in range(it.first + first, it.first + last, UPDATED):
        stop = min(start + UPDATED, it.first + last)
        g = summed(memory, work, work.add, start, stop)
        own = cut(floats(memory, GRADIENTS, 0), start, stop - start)
        for i in range(stop - start):
            own[i] = g[i]
            total += np.float64(g[i]) * np.float64(g[i])
    doubles(memory, SQUARES, work.part)[0] = total
    return 0.0, 0.0


def scale_gradients(operands, memory, work):  # type: ignore[no-untyped-def]
    """Operation that scales the part's gradients if the norm of all gradients exceeds the limit."""
    it = _read(operands)
    first, last = own_panels(it.last - it.first, work)
    total = 0.0
    for part in range(work.parts):
        total += doubles(memory, SQUARES, part)[0]
    factor = np.int64(it.limit).view(np.float64) / (math.sqrt(total) + EPSILON)
    own = cut(floats(memory, GRADIENTS, 0), it.first + first, last - first)
    if not factor >= 1:  # a NaN norm makes all gradients NaN
        for i in range(last - first):
            if own[i] != 0:  # zeros of padding are written once
                own[i] = np.float32(own[i] * factor)
    return 0.0, 0.0
