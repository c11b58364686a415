"""Plain losses and the gradients of the net's output. Each sample's loss is summed in float64."""

import math

import numpy as np

from ..compiler.functions import inner
from ..program.access import activations_of, floats_2d, indices_of, int32s, own_samples, place, reader
from ..program.memory import LABELS, TARGETS
from ..program.operands import CrossEntropyOperands, SquaredErrorOperands, TargetErrorOperands
from .softmax import softmax

LARGE = 1e250  # far enough below the largest float64 for one more factor

_read, _read_squared = reader(CrossEntropyOperands), reader(SquaredErrorOperands)
_read_targets = reader(TargetErrorOperands)


def cross_entropy(operands, memory, work):  # type: ignore[no-untyped-def]
    """Cross-entropy: sum of -log softmax(x)[label], and correct samples; dx = (softmax(x) - onehot) * work.inverse."""
    it, a = _read(operands), activations_of(memory, work)
    labels, indices = int32s(memory, LABELS, 0), indices_of(memory, work)
    loss = 0.0
    correct = 0
    product = 1.0  # of the sums of exponentials, each at least 1: one logarithm serves many samples
    first, last = own_samples(work)
    for sample in range(first, last):
        start, label = place(it.x, sample, 0, 0), labels[indices[sample]]
        total, largest, predicted = softmax(a, start, it.classes, label, work.inverse, a, place(it.dx, sample, 0, 0))
        correct += predicted == label  # the first among equals counts
        product *= total
        if not product < LARGE:
            loss += math.log(product)
            product = 1.0
        loss += largest - a[start + label]
    return loss + math.log(product), float(correct)


def cross_entropy_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Cross-entropy's dx, equal to that of `cross_entropy` bit for bit, without losses and predictions."""
    it, a = _read(operands), activations_of(memory, work)
    labels, indices = int32s(memory, LABELS, 0), indices_of(memory, work)
    first, last = own_samples(work)
    for sample in range(first, last):
        start, out = place(it.x, sample, 0, 0), place(it.dx, sample, 0, 0)
        softmax(a, start, it.classes, labels[indices[sample]], work.inverse, a, out)
    return 0.0, 0.0


@inner
def _squared_error(operands, memory, work):  # type: ignore[no-untyped-def]
    """Compute dx = 2 (x - goal) * work.inverse; returns the sum over elements of (x - goal)^2."""
    it, a = _read_squared(operands), activations_of(memory, work)
    loss = 0.0
    factor = np.float32(2) * work.inverse
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(it.x.height):
            for column in range(it.x.width):
                start, aim = place(it.x, sample, row, column), place(it.goal, sample, row, column)
                out = place(it.dx, sample, row, column)
                for channel in range(it.channels):
                    difference = a[start + channel] - a[aim + channel]
                    loss += difference * difference
                    a[out + channel] = factor * difference
    return loss


def squared_error(operands, memory, work):  # type: ignore[no-untyped-def]
    """Squared error: sum over elements of (x - goal)^2, and the gradient of the mean."""
    return _squared_error(operands, memory, work), 0.0


def squared_error_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Gradient of the mean squared error alone: the compiler drops the unused sum."""
    _squared_error(operands, memory, work)
    return 0.0, 0.0


@inner
def _squared_error_of_targets(operands, memory, work):  # type: ignore[no-untyped-def]
    """Compute dx = 2 (x - target) * work.inverse; returns the sum of (x - target)^2. Targets are in PyTorch's order."""
    it, a = _read_targets(operands), activations_of(memory, work)
    targets, indices = floats_2d(memory, TARGETS), indices_of(memory, work)
    loss, area = 0.0, it.x.height * it.x.width
    factor = np.float32(2) * work.inverse
    first, last = own_samples(work)
    for sample in range(first, last):
        index = indices[sample]
        for row in range(it.x.height):
            for column in range(it.x.width):
                start, out = place(it.x, sample, row, column), place(it.dx, sample, row, column)
                at = row * it.x.width + column
                for channel in range(it.channels):
                    difference = a[start + channel] - targets[index, at + channel * area]
                    loss += difference * difference
                    a[out + channel] = factor * difference
    return loss


def squared_error_of_targets(operands, memory, work):  # type: ignore[no-untyped-def]
    """Squared error with the data set's targets: sum of (x - target)^2, and the gradient of the mean."""
    return _squared_error_of_targets(operands, memory, work), 0.0


def squared_error_of_targets_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Gradient of the mean squared error with the data set's targets, alone: the compiler drops the unused sum."""
    _squared_error_of_targets(operands, memory, work)
    return 0.0, 0.0
