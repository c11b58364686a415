"""Activations and their gradients on the native rung. A ReLU is fused with the layer before it where possible."""

import numpy as np

from ....ops.activation import scalar
from ..compiler.functions import inner, shared
from ..program.access import activations_of, own_samples, place, reader
from ..program.elementwise_operands import (
    ActivationGradientOperands,
    ActivationOperands,
    ReluGradientOperands,
    ReluOperands,
)

_read, _read_gradient = reader(ActivationOperands), reader(ActivationGradientOperands)
_read_relu, _read_relu_gradient = reader(ReluOperands), reader(ReluGradientOperands)
_value, _derivative = shared(scalar.value), shared(scalar.derivative)


@inner
def _slope(bits):  # type: ignore[no-untyped-def]
    return np.float32(np.int64(bits).view(np.float64))


def activation(operands, memory, work):  # type: ignore[no-untyped-def]
    """Activation operation: y = f(x), without the padding."""
    it, a = _read(operands), activations_of(memory, work)
    slope = _slope(it.slope)
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x, y = place(it.x, sample, row, column), place(it.y, sample, row, column)
                for channel in range(it.channels):
                    a[y + channel] = _value(it.function, slope, a[x + channel])
    return 0.0, 0.0


def activation_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Activation gradient operation: dx = f'(x) dy; the padding's dy is 0."""
    it, a = _read_gradient(operands), activations_of(memory, work)
    slope = _slope(it.slope)
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.dy.height):
            for column in range(it.dy.width):
                saved, dy = place(it.saved, sample, row, column), place(it.dy, sample, row, column)
                dx = place(it.dx, sample, row, column)
                for channel in range(it.dy.channels):
                    a[dx + channel] = _derivative(it.function, slope, a[saved + channel]) * a[dy + channel]
    return 0.0, 0.0


@inner
def _channels(activations, view, sample, row, column):  # type: ignore[no-untyped-def]
    """Channels of a pixel, (channels,) float32."""
    start = place(view, sample, row, column)
    return activations[start : start + view.channels]


def relu(operands, memory, work):  # type: ignore[no-untyped-def]
    """ReLU operation: y = 0 where x is below 0, else x; a NaN stays."""
    it, activations = _read_relu(operands), activations_of(memory, work)
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
    it, activations = _read_relu_gradient(operands), activations_of(memory, work)
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
