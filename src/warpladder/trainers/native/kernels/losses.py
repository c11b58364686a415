"""The losses, with the gradient they send back. Each sample's loss is summed in float64."""

from __future__ import annotations

import math

import numpy as np

from ..compiler.functions import inner
from ..program.views import HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_
from .softmax import softmax

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
        start, out, label = x[OFFSET] + sample * x[SAMPLE], dx[OFFSET] + sample * dx[SAMPLE], labels[indices[sample]]
        total, largest, likeliest = softmax(source, start, classes, label, share, slopes, out)
        correct += likeliest == label  # the first among equals counts
        product *= total
        if not product < LARGE:
            loss += math.log(product)
            product = 1.0
        loss += largest - source[start + label]
    return loss + math.log(product), correct


@inner
def cross_entropy_gradient(source, x, labels, indices, classes, slopes, dx, share, first, last):  # type: ignore[no-untyped-def]
    """dx of `cross_entropy` to the bit, without losses and right answers."""
    for sample in range(first, last):
        start, out = x[OFFSET] + sample * x[SAMPLE], dx[OFFSET] + sample * dx[SAMPLE]
        softmax(source, start, classes, labels[indices[sample]], share, slopes, out)


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
