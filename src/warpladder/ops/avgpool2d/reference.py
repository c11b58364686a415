"""Textbook average pooling in float64.

Shapes: x (n, c, h, w), y (n, c, oh, ow). Rows and columns at the far edges that fill no window are left out.
"""

import numpy as np

from ...nets import AdaptiveAvgPool2d, AvgPool2d


def forward(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """Means over windows: y[n, c, p, q] = the mean of x[n, c, p s : p s + rows, q s : q s + columns]."""
    return np.asarray(sum(positions(layer, x))) / area(layer, x)


def backward(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Input gradient (dx,): each output's gradient is divided evenly among the pixels of its window."""
    dx = np.zeros_like(x)
    for target in positions(layer, dx):
        target += dy / area(layer, x)
    return (dx,)


def area(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray) -> int:
    """Number of pixels in a pooling window."""
    rows, columns, _ = layer.window(x.shape[1:])
    return rows * columns


def positions(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray) -> list[np.ndarray]:
    """Views (n, c, oh, ow) of x, one for each offset (row, column) in a window, row by row."""
    (_, oh, ow), (rows, columns, s) = layer.out_shape(x.shape[1:]), layer.window(x.shape[1:])
    return [x[:, :, i : i + s * (oh - 1) + 1 : s, j : j + s * (ow - 1) + 1 : s] for i, j in np.ndindex(rows, columns)]
