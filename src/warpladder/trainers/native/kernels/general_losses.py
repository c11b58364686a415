"""Losses with settings or with shares of samples, and the gradients of the net's output, as in ops/loss.

A sample's loss and gradient are multiplied by its share of the batch's mean, or by 1 / batch without weights.
Losses are summed in float64.
"""

import math

import numpy as np

from ....ops.loss import scalar
from ..compiler.functions import inner, shared
from ..program.access import activations_of, floats, floats_2d, indices_of, int32s, own_samples, place, reader
from ..program.memory import LABELS, SETTINGS, SHARES, TARGETS
from ..program.operands import ElementLossOperands, LabelLossOperands, TargetLossOperands

_read_labels, _read_goals = reader(LabelLossOperands), reader(ElementLossOperands)
_read_targets = reader(TargetLossOperands)
_value, _derivative = shared(scalar.value), shared(scalar.derivative)


@inner
def _share(memory, work, has_shares, sample):  # type: ignore[no-untyped-def]
    """Share (float32) of a block's sample in the mean of its batch."""
    if has_shares != 0:
        return floats(memory, SHARES, 0)[work.first + sample]
    return work.inverse


def label_loss(operands, memory, work):  # type: ignore[no-untyped-def]
    """Loss with labels: sum of share * (-sum of q log softmax(x)), correct ones; dx = share (softmax(x) sum(q) - q)."""
    it, a = _read_labels(operands), activations_of(memory, work)
    labels, indices, w = int32s(memory, LABELS, 0), indices_of(memory, work), floats(memory, SETTINGS, 0)
    smoothing = np.int64(it.smoothing).view(np.float64)
    spread, rest = smoothing / it.classes, 1 - smoothing
    loss, correct = 0.0, 0
    first, last = own_samples(work)
    for sample in range(first, last):
        start, out, label = place(it.x, sample, 0, 0), place(it.dx, sample, 0, 0), labels[indices[sample]]
        share = _share(memory, work, it.has_shares, sample)
        best = 0
        for c in range(1, it.classes):
            if a[start + c] > a[start + best]:
                best = c
        total, every, lost = 0.0, 0.0, 0.0
        largest = a[start + best]
        for c in range(it.classes):
            q = w[c] * (spread + (rest if c == label else 0.0))
            total += math.exp(a[start + c] - largest)
            every += q
            lost += q * (largest - a[start + c])
        loss += share * (every * math.log(total) + lost)
        correct += best == label
        for c in range(it.classes):
            q = w[c] * (spread + (rest if c == label else 0.0))
            a[out + c] = share * (math.exp(a[start + c] - largest) / total * every - q)
        for c in range(it.classes, it.dx.channels):
            a[out + c] = 0
    return loss, float(correct)


def element_loss(operands, memory, work):  # type: ignore[no-untyped-def]
    """Loss by element: sum of share / size * f(x, goal); dx = share / size * f'(x, goal), in the program's layout."""
    it, a, setting = _read_goals(operands), activations_of(memory, work), floats(memory, SETTINGS, 0)
    loss, area = 0.0, it.x.height * it.x.width
    first, last = own_samples(work)
    for sample in range(first, last):
        share = _share(memory, work, it.has_shares, sample) / np.float32(area * it.channels)
        for row in range(it.x.height):
            for column in range(it.x.width):
                start, aim = place(it.x, sample, row, column), place(it.goal, sample, row, column)
                out, at = place(it.dx, sample, row, column), row * it.x.width + column
                for channel in range(it.channels):
                    its, x, goal = setting[at + channel * area], a[start + channel], a[aim + channel]
                    loss += share * _value(it.function, its, x, goal)
                    a[out + channel] = share * _derivative(it.function, its, x, goal)
    return loss, 0.0


def element_loss_of_targets(operands, memory, work):  # type: ignore[no-untyped-def]
    """Loss by element, as `element_loss`, of the data set's targets (samples, outputs): outputs are in PyTorch's order,
    channels first.
    """
    it, a, setting = _read_targets(operands), activations_of(memory, work), floats(memory, SETTINGS, 0)
    targets, indices = floats_2d(memory, TARGETS), indices_of(memory, work)
    loss, area = 0.0, it.x.height * it.x.width
    first, last = own_samples(work)
    for sample in range(first, last):
        index = indices[sample]
        share = _share(memory, work, it.has_shares, sample) / np.float32(area * it.channels)
        for row in range(it.x.height):
            for column in range(it.x.width):
                start, out = place(it.x, sample, row, column), place(it.dx, sample, row, column)
                at = row * it.x.width + column
                for channel in range(it.channels):
                    number = at + channel * area
                    its, x, goal = setting[number], a[start + channel], targets[index, number]
                    loss += share * _value(it.function, its, x, goal)
                    a[out + channel] = share * _derivative(it.function, its, x, goal)
    return loss, 0.0
