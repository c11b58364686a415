"""Maximum over windows, as the textbook has it.

Shapes: x (n, c, h, w), y (n, c, oh, ow); float64. Windows that do not fit at the far edges are dropped.
"""

from __future__ import annotations

import numpy as np

from ..relu.reference import closest


def forward(x: np.ndarray, kernel_size: int, stride: int) -> np.ndarray:
    """y[n, c, p, q] = the maximum of x[n, c, p s : p s + k, q s : q s + k]."""
    first, *others = positions(x, kernel_size, stride)
    y = first.copy()
    for candidate in others:
        np.maximum(y, candidate, out=y)
    return y


def backward(x: np.ndarray, kernel_size: int, stride: int, dy: np.ndarray) -> np.ndarray:
    """dx: each output's gradient goes to the argmax of its window, the first among equals, or the first NaN."""
    first, *others = positions(x, kernel_size, stride)
    number_type = np.min_scalar_type(kernel_size**2 - 1).type
    best, argmax = first.copy(), np.zeros(first.shape, number_type)
    for number, candidate in enumerate(others, 1):
        wins = (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
        np.maximum(argmax, wins * number_type(number), out=argmax)  # the numbers rise: the latest argmax stands
        np.maximum(best, candidate, out=best)
    dx = np.zeros_like(x)
    for number, target in enumerate(positions(dx, kernel_size, stride)):
        target += np.where(argmax == number, dy, 0)
    return dx


def margin(x: np.ndarray, kernel_size: int, stride: int) -> np.ndarray:
    """(n,): how far each sample's closest runner-up is from its argmax, relative to the sample's root mean square.

    Equals do not count (`relu.reference.STRUCTURAL`): they see equal pixels, a flat background say, and so does the
    gradient.
    """
    if kernel_size == 1:
        return np.full(len(x), np.inf)
    first, *others = positions(x, kernel_size, stride)
    best, second = first.copy(), np.full(first.shape, -np.inf)
    for candidate in others:
        np.maximum(second, np.minimum(best, candidate), out=second)
        np.maximum(best, candidate, out=best)
    gap = (best - second).reshape(len(x), -1)
    size = np.sqrt(np.mean(x.reshape(len(x), -1) ** 2, axis=1, keepdims=True))
    return closest(gap, size)


def positions(x: np.ndarray, k: int, s: int) -> list[np.ndarray]:
    """Views (n, c, oh, ow) of x, one for each of the k k places of a window, row by row."""
    oh, ow = (x.shape[2] - k) // s + 1, (x.shape[3] - k) // s + 1
    return [x[:, :, i : i + s * (oh - 1) + 1 : s, j : j + s * (ow - 1) + 1 : s] for i, j in np.ndindex(k, k)]


def windows(x: np.ndarray, k: int, s: int) -> np.ndarray:
    """(n, c, oh, ow, k * k)."""
    return np.stack(positions(x, k, s), axis=-1)
