"""Textbook max pooling in float64.

Shapes: x (n, c, h, w), y (n, c, oh, ow). Rows and columns at the far edges that fill no window are left out.
"""

import numpy as np

from ...nets import MaxPool2d
from ..relu.reference import closest


def forward(layer: MaxPool2d, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """Maxima of windows: y[n, c, p, q] = the maximum of x[n, c, p s : p s + k, q s : q s + k]."""
    first, *others = positions(layer, x)
    y = first.copy()
    for candidate in others:
        np.maximum(y, candidate, out=y)
    return y


def backward(layer: MaxPool2d, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Input gradient (dx,): a window's gradient is added at its argmax, the first of equals, or the first NaN."""
    first, *others = positions(layer, x)
    number_type = np.min_scalar_type(layer.kernel_size**2 - 1).type
    best, argmax = first.copy(), np.zeros(first.shape, number_type)
    for number, candidate in enumerate(others, 1):
        wins = (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
        np.maximum(argmax, wins * number_type(number), out=argmax)  # numbers rise, and so the latest argmax stays
        np.maximum(best, candidate, out=best)
    dx = np.zeros_like(x)
    for number, target in enumerate(positions(layer, dx)):
        target += np.where(argmax == number, dy, 0)
    return (dx,)


def margin(layer: MaxPool2d, x: np.ndarray) -> np.ndarray:
    """Distance (n,) of each sample's closest second-largest pixel from its window's maximum, relative to the sample's
    RMS.

    Equal pixels are left out (`relu.reference.STRUCTURAL`): they come from a flat background, for example.
    """
    if layer.kernel_size == 1:
        return np.full(len(x), np.inf)
    first, *others = positions(layer, x)
    best, second = first.copy(), np.full(first.shape, -np.inf)
    for candidate in others:
        np.maximum(second, np.minimum(best, candidate), out=second)
        np.maximum(best, candidate, out=best)
    gap = (best - second).reshape(len(x), -1)
    size = np.sqrt(np.mean(x.reshape(len(x), -1) ** 2, axis=1, keepdims=True))
    return closest(gap, size)


def positions(layer: MaxPool2d, x: np.ndarray) -> list[np.ndarray]:
    """Views (n, c, oh, ow) of x, one for each of the k k offsets in a window, row by row."""
    (_, oh, ow), k, s = layer.out_shape(x.shape[1:]), layer.kernel_size, layer.stride or layer.kernel_size
    return [x[:, :, i : i + s * (oh - 1) + 1 : s, j : j + s * (ow - 1) + 1 : s] for i, j in np.ndindex(k, k)]
