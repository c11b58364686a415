"""Two-dimensional cross-correlation in float64, as one matrix product for each sample.

Shapes: x (n, c, h, w), weight (o, c, k, k), bias (o,), y (n, o, oh, ow); float64. Element (i, j)
of the kernel meets the padded input at rows i, i + stride, ... and columns j, j + stride, ...

The sum over c, i and j is a product with all that the kernel meets as a matrix, k k times as large as the image. Where
the output has far fewer channels than the input, it is the output that is unfolded. Few samples are unfolded at a time:
more would leave the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

AT_ONCE = 1 << 18  # numbers unfolded at a time, 2 MiB
# times fewer channels of the output than of the input, from where on the output is unfolded: its products reach over
# the image's edge
FEWER = 2


def forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """y[n, o, p, q] = bias[o] + sum over c, i, j of weight[o, c, i, j] padded[n, c, p s + i, q s + j]."""
    o, c, k, _ = weight.shape
    h, w = x.shape[2] + 2 * padding, x.shape[3] + 2 * padding
    oh, ow = (h - k) // stride + 1, (w - k) // stride + 1
    y = np.empty((len(x), o, oh, ow))
    for some in _parts(len(x), (c if c <= FEWER * o else o) * k * k * h * w):
        padded, out = _pad(x[some], padding), y[some]
        out[...] = bias[:, None, None]
        if c <= FEWER * o:
            out += (weight.reshape(o, -1) @ _met(padded, k, oh, ow, stride)).reshape(out.shape)
        else:  # each kernel element's products with every pixel; the pixels that the element meets are added up
            products = weight.transpose(0, 2, 3, 1).reshape(-1, c) @ padded.reshape(len(out), c, -1)
            terms = products.reshape(len(out), o, k, k, h, w)
            for i, j in np.ndindex(k, k):
                out += terms[:, :, i, j][_window(i, j, oh, ow, stride)]
    return y


def backward(
    x: np.ndarray, weight: np.ndarray, dy: np.ndarray, stride: int, padding: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients (dx, dweight, dbias) from dy (n, o, oh, ow)."""
    o, c, k, _ = weight.shape
    oh, ow = dy.shape[2:]
    h, w = x.shape[2] + 2 * padding, x.shape[3] + 2 * padding
    dx, dweight = np.empty_like(x), np.zeros_like(weight)
    for some in _parts(len(x), (c if c <= FEWER * o else o) * k * k * h * w):
        padded, above = _pad(x[some], padding), dy[some]
        if c <= FEWER * o:
            flat = above.reshape(len(above), o, -1)
            dweight += (flat @ _met(padded, k, oh, ow, stride).transpose(0, 2, 1)).sum(axis=0).reshape(weight.shape)
            terms = (weight.reshape(o, -1).T @ flat).reshape(len(above), c, k, k, oh, ow)
            dpadded = np.zeros_like(padded)
            for i, j in np.ndindex(k, k):
                dpadded[_window(i, j, oh, ow, stride)] += terms[:, :, i, j]
        else:
            spread = np.zeros((len(above), o, k, k, h, w))  # dy, where each kernel element meets the input
            for i, j in np.ndindex(k, k):
                spread[:, :, i, j][_window(i, j, oh, ow, stride)] = above
            flat = spread.reshape(len(above), o * k * k, -1)
            found = (flat @ padded.reshape(len(above), c, -1).transpose(0, 2, 1)).sum(axis=0)
            dweight += found.reshape(o, k, k, c).transpose(0, 3, 1, 2)
            dpadded = (weight.transpose(1, 0, 2, 3).reshape(c, -1) @ flat).reshape(padded.shape)
        dx[some] = dpadded[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]
    return dx, dweight, dy.sum(axis=(0, 2, 3))


def _parts(n: int, each: int) -> Iterator[slice]:
    """Runs of the samples 0..n-1, `each` numbers a sample unfolded."""
    step = max(1, AT_ONCE // each)
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


def _pad(x: np.ndarray, padding: int) -> np.ndarray:
    if not padding:
        return x
    n, c, h, w = x.shape
    padded = np.zeros((n, c, h + 2 * padding, w + 2 * padding))
    padded[:, :, padding : padding + h, padding : padding + w] = x
    return padded


def _met(padded: np.ndarray, k: int, oh: int, ow: int, stride: int) -> np.ndarray:
    """(n, c k k, oh ow): what each element of the kernel meets, at each place of the kernel."""
    n, c = padded.shape[:2]
    out = np.empty((n, c, k, k, oh, ow))
    for i, j in np.ndindex(k, k):
        out[:, :, i, j] = padded[_window(i, j, oh, ow, stride)]
    return out.reshape(n, c * k * k, oh * ow)


def _window(i: int, j: int, oh: int, ow: int, stride: int) -> tuple[slice, ...]:
    """Rows and columns of a padded image that element (i, j) of the kernel meets."""
    rows = slice(i, i + stride * (oh - 1) + 1, stride)
    columns = slice(j, j + stride * (ow - 1) + 1, stride)
    return (slice(None), slice(None), rows, columns)
