"""ReLU that is not fused with the layer before it, and its gradient, on the native rung."""

from __future__ import annotations

import numpy as np

from ..compiler.functions import inner
from ..program.access import activations_of, own_samples, place, reader
from ..program.elementwise_operands import ReluGradientOperands, ReluOperands

_read, _read_gradient = reader(ReluOperands), reader(ReluGradientOperands)


@inner
def _channels(activations, view, sample, row, column):  # type: ignore[no-untyped-def]
    """Channels of a pixel, (channels,) float32."""
    start = place(view, sample, row, column)
    return activations[start : start + view.channels]


def relu(operands, memory, work):  # type: ignore[no-untyped-def]
    """ReLU operation: y = 0 where x is below 0, else x; a NaN stays."""
    it, activations = _read(operands), activations_of(memory, work)
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x = _channels(activations, it.x, sample, row, column)
                y = _channels(activations, it.y, sample, row, column)
                for channel in range(it.x.channels):
                    y[channel] = np.float32(0) if x[channel] < 0 else x[channel]
    return 0.0, 0.0


def relu_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """ReLU gradient: dx = dy where the output y is above 0, else 0."""
    it, activations = _read_gradient(operands), activations_of(memory, work)
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.y.height):
            for column in range(it.y.width):
                y = _channels(activations, it.y, sample, row, column)
                dy = _channels(activations, it.dy, sample, row, column)
                dx = _channels(activations, it.dx, sample, row, column)
                for channel in range(it.y.channels):
                    dx[channel] = dy[channel] if y[channel] > 0 else np.float32(0)
    return 0.0, 0.0
