"""Dropout on the native rung, forward and backward."""

import numpy as np

from ....ops.dropout import scalar
from ..compiler.functions import shared
from ..program.access import activations_of, own_samples, place, reader
from ..program.elementwise_operands import DropoutOperands

_read = reader(DropoutOperands)
_mixed = shared(scalar.mixed)


def dropout(operands, memory, work):  # type: ignore[no-untyped-def]
    """Dropout operation: y = x m, without the padding; y = x in predictions."""
    it, a = _read(operands), activations_of(memory, work)
    key, threshold, scale = np.int64(0), np.int64(0), np.float32(1)
    if work.settings.mask_key >= 0:
        key = _mixed((work.settings.mask_key + it.added) & 0xFFFFFFFF)
        threshold, scale = it.threshold, np.float32(np.int64(it.scale).view(np.float64))
    first, last = own_samples(work)
    for sample in range(first, last):
        of_sample = _mixed(key ^ (work.settings.position + work.first + sample))
        for row in range(it.x.height):
            for column in range(it.x.width):
                x, y = place(it.x, sample, row, column), place(it.y, sample, row, column)
                for channel in range(it.channels):
                    element = (channel * it.x.height + row) * it.x.width + column
                    kept = _mixed(of_sample ^ element) >= threshold
                    a[y + channel] = a[x + channel] * (scale if kept else np.float32(0))
    return 0.0, 0.0
