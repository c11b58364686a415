"""The losses, with the gradient they send back. Each sample's loss is summed in float64."""

from __future__ import annotations

import math

import numpy as np

from .inner import inner
from .simd import exponentials, maximum_of
from .vectors import LANES
from .views import HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_

LARGE = 1e250  # far enough below the largest float64 for one more factor


@inner
def cross_entropy(source, x, labels, indices, classes, slopes, dx, share, first, last):  # type: ignore[no-untyped-def]
    """Sum over samples of -log softmax(x)[label] and the count of right answers; dx = (softmax - onehot) * share.

    x : rows of logits, padded beyond `classes`. share : 1 / samples in the whole batch.
    """
    loss = 0.0
    correct = 0
    product = 1.0  # of the sums of exponentials, each at least 1: one logarithm serves many samples
    for sample in range(first, last):
        start = x[OFFSET] + sample * x[SAMPLE]
        logits = source[start : start + classes]
        label = labels[indices[sample]]
        largest = maximum_of(source, start, classes)
        if logits[label] == largest:  # the first among equals counts
            correct += 1
            for i in range(label):
                if logits[i] == largest:
                    correct -= 1
                    break
        out = dx[OFFSET] + sample * dx[SAMPLE]
        total = exponentials(source, start, largest, slopes, out, classes)
        for at in range(LANES, classes, LANES):
            total += exponentials(source, start + at, largest, slopes, out + at, classes - at)
        product *= total
        if not product < LARGE:
            loss += math.log(product)
            product = 1.0
        loss += largest - logits[label]
        factor = share / total
        parts = slopes[out : out + (classes + LANES - 1) // LANES * LANES]
        for i in range(parts.shape[0]):
            parts[i] *= factor
        parts[label] -= share
    return loss + math.log(product), correct


@inner
def cross_entropy_gradient(source, x, labels, indices, classes, slopes, dx, share, first, last):  # type: ignore[no-untyped-def]
    """dx of `cross_entropy` to the bit, without losses and right answers; its lines stand here again, since a call would cost as much as the losses."""
    for sample in range(first, last):
        start = x[OFFSET] + sample * x[SAMPLE]
        largest = maximum_of(source, start, classes)
        out = dx[OFFSET] + sample * dx[SAMPLE]
        total = exponentials(source, start, largest, slopes, out, classes)
        for at in range(LANES, classes, LANES):
            total += exponentials(source, start + at, largest, slopes, out + at, classes - at)
        factor = share / total
        parts = slopes[out : out + (classes + LANES - 1) // LANES * LANES]
        for i in range(parts.shape[0]):
            parts[i] *= factor
        parts[labels[indices[sample]]] -= share


@inner
def squared_error(source, x, goals, goal, channels, slopes, dx, share, first, last):  # type: ignore[no-untyped-def]
    """Sum over elements of (x - goal)^2; dx = 2 (x - goal) * share. share : 1 / elements in the whole batch."""
    loss = 0.0
    factor = np.float32(2) * share
    for sample in range(first, last):
        for row in range(x[HEIGHT]):
            for column in range(x[WIDTH_]):
                start = x[OFFSET] + sample * x[SAMPLE] + row * x[ROW] + column * x[PIXEL]
                aim = goal[OFFSET] + sample * goal[SAMPLE] + row * goal[ROW] + column * goal[PIXEL]
                out = dx[OFFSET] + sample * dx[SAMPLE] + row * dx[ROW] + column * dx[PIXEL]
                for channel in range(channels):
                    difference = source[start + channel] - goals[aim + channel]
                    loss += difference * difference
                    slopes[out + channel] = factor * difference
    return loss


@inner
def squared_error_gradient(source, x, goals, goal, channels, slopes, dx, share, first, last):  # type: ignore[no-untyped-def]
    """dx of `squared_error`, without the sum."""
    factor = np.float32(2) * share
    for sample in range(first, last):
        for row in range(x[HEIGHT]):
            for column in range(x[WIDTH_]):
                start = x[OFFSET] + sample * x[SAMPLE] + row * x[ROW] + column * x[PIXEL]
                aim = goal[OFFSET] + sample * goal[SAMPLE] + row * goal[ROW] + column * goal[PIXEL]
                out = dx[OFFSET] + sample * dx[SAMPLE] + row * dx[ROW] + column * dx[PIXEL]
                for channel in range(channels):
                    slopes[out + channel] = factor * (source[start + channel] - goals[aim + channel])
