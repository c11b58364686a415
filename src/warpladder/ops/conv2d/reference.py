"""Two-dimensional cross-correlation, as the textbook has it: a sum over the elements of the kernel.

Shapes: x (n, c, h, w), weight (o, c, k, k), bias (o,), y (n, o, oh, ow); float64. Element (i, j)
of the kernel meets the padded input at rows i, i + stride, ... and columns j, j + stride, ...
"""

from __future__ import annotations

import numpy as np


def forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """y[n, o, p, q] = bias[o] + sum over c, i, j of weight[o, c, i, j] padded[n, c, p s + i, q s + j]."""
    padded = _pad(x, padding)
    k = weight.shape[2]
    oh, ow = _out_size(padded, k, stride)
    y = np.zeros((len(x), len(weight), oh, ow)) + bias[:, None, None]
    for i in range(k):
        for j in range(k):
            seen = padded[_window(i, j, oh, ow, stride)]
            y += np.einsum("oc,ncpq->nopq", weight[:, :, i, j], seen, optimize=True)
    return y


def backward(x: np.ndarray, weight: np.ndarray, dy: np.ndarray, stride: int, padding: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients (dx, dweight, dbias) from dy (n, o, oh, ow)."""
    padded = _pad(x, padding)
    k = weight.shape[2]
    oh, ow = dy.shape[2:]
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(k):
        for j in range(k):
            window = _window(i, j, oh, ow, stride)
            dweight[:, :, i, j] = np.einsum("nopq,ncpq->oc", dy, padded[window], optimize=True)
            dpadded[window] += np.einsum("oc,nopq->ncpq", weight[:, :, i, j], dy, optimize=True)
    h, w = x.shape[2:]
    return dpadded[:, :, padding : padding + h, padding : padding + w], dweight, dy.sum(axis=(0, 2, 3))


def _pad(x: np.ndarray, padding: int) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))


def _out_size(padded: np.ndarray, k: int, stride: int) -> tuple[int, int]:
    h, w = padded.shape[2:]
    return (h - k) // stride + 1, (w - k) // stride + 1


def _window(i: int, j: int, oh: int, ow: int, stride: int) -> tuple[slice, ...]:
    rows = slice(i, i + stride * (oh - 1) + 1, stride)
    columns = slice(j, j + stride * (ow - 1) + 1, stride)
    return (slice(None), slice(None), rows, columns)
