"""Batch normalisation and its gradient on the native rung. Sums are float64.

A batch is one block, which all threads share: sums over it are divided by panels of channels, maps by samples, with a
barrier between them. A layer's statistics are 4 x channels float64: mean, inverse deviation, and in the backward pass
the means of dy z and of dy, for z = (x - mean) / deviation.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiler.functions import inner
from ..compiler.vectors import WIDTH
from ..program.access import activations_of, cut, doubles, floats, own_samples, place, reader, share
from ..program.elementwise_operands import NormaliseGradientOperands, NormaliseOperands
from ..program.memory import BUFFERS, GRADIENTS, STATISTICS, WEIGHTS

_read, _read_gradient = reader(NormaliseOperands), reader(NormaliseGradientOperands)


@inner
def _own_channels(channels, work):  # type: ignore[no-untyped-def]
    """First channel of the thread's panels, and the one after the last."""
    first, last = share((channels + WIDTH - 1) // WIDTH, work.part, work.parts)
    return first * WIDTH, min(last * WIDTH, channels)


@inner
def _statistics(memory, offset, channels, which):  # type: ignore[no-untyped-def]
    """Array `which` of a layer's statistics, (channels,) float64."""
    return cut(doubles(memory, STATISTICS, 0), offset + which * channels, channels)


@inner
def _number(bits):  # type: ignore[no-untyped-def]
    return np.int64(bits).view(np.float64)


def batch_statistics(operands, memory, work):  # type: ignore[no-untyped-def]
    """Batch statistics operation: mean and inverse deviation of x, which move the running ones; in predictions the
    running ones.
    """
    it, a = _read(operands), activations_of(memory, work)
    mean = _statistics(memory, it.statistics, it.channels, 0)
    factor = _statistics(memory, it.statistics, it.channels, 1)
    running = floats(memory, BUFFERS, 0)
    eps, momentum = _number(it.eps), _number(it.momentum)
    first, last = _own_channels(it.channels, work)
    for c in range(first, last):
        mean[c], factor[c] = 0.0, 0.0
    if work.settings.mask_key < 0:
        for c in range(first, last):
            mean[c] = running[it.running + c]
            factor[c] = 1 / math.sqrt(np.float64(running[it.running + it.channels + c]) + eps)
        return 0.0, 0.0
    count = np.float64(work.n * it.x.height * it.x.width)
    for sample in range(work.n):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x = place(it.x, sample, row, column)
                for c in range(first, last):
                    mean[c] += a[x + c]
    for c in range(first, last):
        mean[c] /= count
    for sample in range(work.n):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x = place(it.x, sample, row, column)
                for c in range(first, last):
                    factor[c] += (a[x + c] - mean[c]) ** 2
    for c in range(first, last):
        at, squares = it.running + c, factor[c]
        running[at] = (1 - momentum) * running[at] + momentum * mean[c]
        at += it.channels
        running[at] = (1 - momentum) * running[at] + momentum * (squares / (count - 1))
        factor[c] = 1 / math.sqrt(squares / count + eps)
    return 0.0, 0.0


def normalise(operands, memory, work):  # type: ignore[no-untyped-def]
    """Normalise operation: y = z w + b, without the padding, which stays 0."""
    it, a, weights = _read(operands), activations_of(memory, work), floats(memory, WEIGHTS, 0)
    mean = _statistics(memory, it.statistics, it.channels, 0)
    factor = _statistics(memory, it.statistics, it.channels, 1)
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x, y = place(it.x, sample, row, column), place(it.y, sample, row, column)
                if it.weights < 0:
                    for c in range(it.channels):
                        a[y + c] = (a[x + c] - mean[c]) * factor[c]
                else:
                    for c in range(it.channels):
                        z = (a[x + c] - mean[c]) * factor[c]
                        a[y + c] = z * weights[it.weights + c] + weights[it.bias + c]
    return 0.0, 0.0


def normalise_sums(operands, memory, work):  # type: ignore[no-untyped-def]
    """Normalise sums operation: dw = sum of dy z, db = sum of dy, and both divided by the numbers of a channel."""
    it, a, gradients = _read_gradient(operands), activations_of(memory, work), floats(memory, GRADIENTS, work.slot)
    mean = _statistics(memory, it.statistics, it.channels, 0)
    factor = _statistics(memory, it.statistics, it.channels, 1)
    products = _statistics(memory, it.statistics, it.channels, 2)
    total = _statistics(memory, it.statistics, it.channels, 3)
    first, last = _own_channels(it.channels, work)
    for c in range(first, last):
        products[c], total[c] = 0.0, 0.0
    for sample in range(work.n):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x, dy = place(it.x, sample, row, column), place(it.dy, sample, row, column)
                for c in range(first, last):
                    products[c] += a[dy + c] * ((a[x + c] - mean[c]) * factor[c])
                    total[c] += a[dy + c]
    count = np.float64(work.n * it.x.height * it.x.width)
    for c in range(first, last):
        if it.weights >= 0:
            gradients[it.weights + c], gradients[it.bias + c] = products[c], total[c]
        products[c] /= count
        total[c] /= count
    return 0.0, 0.0


def normalise_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Normalise gradient operation: dx = w / deviation (dy - mean of dy - z mean of dy z)."""
    it, a, weights = _read_gradient(operands), activations_of(memory, work), floats(memory, WEIGHTS, 0)
    mean = _statistics(memory, it.statistics, it.channels, 0)
    factor = _statistics(memory, it.statistics, it.channels, 1)
    products = _statistics(memory, it.statistics, it.channels, 2)
    total = _statistics(memory, it.statistics, it.channels, 3)
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                x, dy = place(it.x, sample, row, column), place(it.dy, sample, row, column)
                dx = place(it.dx, sample, row, column)
                for c in range(it.channels):
                    z = (a[x + c] - mean[c]) * factor[c]
                    found = (a[dy + c] - total[c] - z * products[c]) * factor[c]
                    a[dx + c] = found if it.weights < 0 else found * weights[it.weights + c]
    return 0.0, 0.0
