"""Textbook residual connections in float64."""

import numpy as np

from ...nets import Branch, Layer, Shortcut, Sum


def forward(layer: Layer, x: np.ndarray, skip: np.ndarray | None) -> np.ndarray:
    """Output (n, *out_shape) of a residual layer, from x (n, *in_shape) and the stored array, None for a `Branch`."""
    if isinstance(layer, Branch):
        return x
    assert isinstance(layer, Shortcut | Sum) and skip is not None
    return skip if isinstance(layer, Shortcut) else x + skip


def backward(layer: Layer, dy: np.ndarray, dskip: np.ndarray | None) -> np.ndarray:
    """Gradient of x (n, *in_shape), from y's gradient dy and the second gradient dskip, None for a `Sum`.

    The stored array's gradient is the `Sum`'s dy, or the gradient of the `Shortcut`'s y.
    """
    if isinstance(layer, Shortcut):
        assert dskip is not None
        return dskip
    return dy if dskip is None else dy + dskip
