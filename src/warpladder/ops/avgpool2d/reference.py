"""Mean over windows, as the textbook has it.

Shapes: x (n, c, h, w), y (n, c, oh, ow); float64. Windows that do not fit at the far edges are dropped.
"""

import numpy as np

from ...nets import AdaptiveAvgPool2d, AvgPool2d


def forward(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """y[n, c, p, q] = the mean of x[n, c, p s : p s + rows, q s : q s + columns]."""
    return np.asarray(sum(positions(layer, x))) / area(layer, x)


def backward(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """(dx,): each output's gradient is shared out evenly over its window."""
    dx = np.zeros_like(x)
    for target in positions(layer, dx):
        target += dy / area(layer, x)
    return (dx,)


def area(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray) -> int:
    """Numbers in a window."""
    rows, columns, _ = layer.window(x.shape[1:])
    return rows * columns


def positions(layer: AvgPool2d | AdaptiveAvgPool2d, x: np.ndarray) -> list[np.ndarray]:
    """Views (n, c, oh, ow) of x, one for each place of a window, row by row."""
    (_, oh, ow), (rows, columns, s) = layer.out_shape(x.shape[1:]), layer.window(x.shape[1:])
    return [x[:, :, i : i + s * (oh - 1) + 1 : s, j : j + s * (ow - 1) + 1 : s] for i, j in np.ndindex(rows, columns)]
