"""Textbook nearest-neighbour upsampling in float64. Shapes: x (n, c, h, w), y (n, c, s h, s w)."""

import numpy as np

from ...nets import Upsample2d


def forward(layer: Upsample2d, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """Upsampled output y (n, c, s h, s w): y[n, c, p, q] = x[n, c, p // s, q // s]."""
    return x.repeat(layer.scale_factor, axis=2).repeat(layer.scale_factor, axis=3)


def backward(layer: Upsample2d, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Input gradient (dx,): dx[n, c, p, q] = the sum of dy over the s x s pixels copied from x[n, c, p, q]."""
    (n, c, h, width), s = dy.shape, layer.scale_factor
    return (dy.reshape(n, c, h // s, s, width // s, s).sum(axis=(3, 5)),)
