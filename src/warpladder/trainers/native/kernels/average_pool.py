"""Average pooling and its gradient on the native rung, all channels of a pixel at a time."""

from __future__ import annotations

import numpy as np

from ..program.access import activations_of, own_samples, place, reader
from ..program.operands import AveragePoolOperands

_read = reader(AveragePoolOperands)


def average_pool(operands, memory, work):  # type: ignore[no-untyped-def]
    """Average pooling operation: y = the mean of each window of x."""
    it, a = _read(operands), activations_of(memory, work)
    share = np.float32(1.0 / (it.rows * it.columns))
    first, last = own_samples(work)
    for sample in range(first, last):
        for p in range(it.y.height):
            for q in range(it.y.width):
                y = place(it.y, sample, p, q)
                out = a[y : y + it.y.channels]
                out[:] = np.float32(0)
                for i in range(it.rows):
                    for j in range(it.columns):
                        x = place(it.x, sample, p * it.stride + i, q * it.stride + j)
                        part = a[x : x + it.y.channels]
                        for channel in range(it.y.channels):
                            out[channel] += part[channel]
                for channel in range(it.y.channels):
                    out[channel] *= share
    return 0.0, 0.0


def average_pool_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Average pooling gradient: dx = the sum of dy / area over the windows that hold a pixel."""
    it, a = _read(operands), activations_of(memory, work)
    share = np.float32(1.0 / (it.rows * it.columns))
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x = place(it.x, sample, row, column)
                a[x : x + it.x.channels] = np.float32(0)
        for p in range(it.y.height):
            for q in range(it.y.width):
                y = place(it.y, sample, p, q)
                part = a[y : y + it.x.channels]
                for i in range(it.rows):
                    for j in range(it.columns):
                        x = place(it.x, sample, p * it.stride + i, q * it.stride + j)
                        target = a[x : x + it.x.channels]
                        for channel in range(it.x.channels):
                            target[channel] += part[channel] * share
    return 0.0, 0.0
