"""Maximum over windows, as the textbook has it.

Shapes: x (n, c, h, w), y (n, c, oh, ow); float64. Windows that do not fit at the far edges are dropped.
"""

from __future__ import annotations

import numpy as np

from ..relu.reference import STRUCTURAL


def forward(x: np.ndarray, kernel_size: int, stride: int) -> np.ndarray:
    """y[n, c, p, q] = the maximum of x[n, c, p s : p s + k, q s : q s + k]."""
    return windows(x, kernel_size, stride).max(axis=-1)


def backward(x: np.ndarray, kernel_size: int, stride: int, dy: np.ndarray) -> np.ndarray:
    """dx: each output's gradient goes to the winner of its window, the first among equals."""
    winner = windows(x, kernel_size, stride).argmax(axis=-1)
    n, c, p, q = np.indices(dy.shape)
    dx = np.zeros_like(x)
    np.add.at(dx, (n, c, p * stride + winner // kernel_size, q * stride + winner % kernel_size), dy)
    return dx


def margin(x: np.ndarray, kernel_size: int, stride: int) -> np.ndarray:
    """(n,): how far each sample's closest runner-up is from its winner, relative to the sample's root mean square.

    Equals do not count (`STRUCTURAL`): they see equal pixels, a flat background say, and so does the gradient.
    """
    if kernel_size == 1:
        return np.full(len(x), np.inf)
    top = np.partition(windows(x, kernel_size, stride), kernel_size**2 - 2, axis=-1)[..., -2:]
    gap = (top[..., 1] - top[..., 0]).reshape(len(x), -1)
    size = np.sqrt(np.mean(x.reshape(len(x), -1) ** 2, axis=1, keepdims=True))
    relative = np.divide(gap, size, out=np.full(gap.shape, np.inf), where=gap > STRUCTURAL * size)
    return relative.min(axis=1)


def windows(x: np.ndarray, k: int, s: int) -> np.ndarray:
    """(n, c, oh, ow, k * k)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s]
    return windows.reshape(*windows.shape[:4], k * k)
