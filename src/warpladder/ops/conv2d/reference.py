"""Two-dimensional cross-correlation in float64, as one matrix product for each sample.

Shapes: x (n, c, h, w), w (o, c, k, k), b (o,), y (n, o, oh, ow). Element (i, j) of the kernel multiplies the padded
input at rows i, i + stride, ... and columns j, j + stride, ...

The sum over c, i and j is a product of the weights and a matrix of all patches, k k times as large as the image. If
the output has far fewer channels than the input, the output is unfolded. Samples are processed a few at a time, so that
their patches stay in the cache.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ...nets import Conv2d

#: Numbers unfolded at a time, 2 MiB.
AT_ONCE = 1 << 18
#: Input channels for each output channel above which the output is unfolded: its products reach over the edge.
FEWER = 2


def forward(layer: Conv2d, x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """Output y: y[n, o, p, q] = b[o] + sum over c, i, j of w[o, c, i, j] padded[n, c, p s + i, q s + j].

    w : weight of one kernel per output. b : bias (o,), or None.
    """
    (o, c, k, _), stride, padding = w.shape, layer.stride, layer.padding
    high, wide = x.shape[2] + 2 * padding, x.shape[3] + 2 * padding
    oh, ow = (high - k) // stride + 1, (wide - k) // stride + 1
    y = np.empty((len(x), o, oh, ow))
    for some in _parts(len(x), (c if c <= FEWER * o else o) * k * k * high * wide):
        padded, out = _pad(x[some], padding), y[some]
        out[...] = 0 if b is None else b[:, None, None]
        if c <= FEWER * o:
            out += (w.reshape(o, -1) @ _met(padded, k, oh, ow, stride)).reshape(out.shape)
        else:  # products of each kernel element with every pixel, added at the pixel's output
            products = w.transpose(0, 2, 3, 1).reshape(-1, c) @ padded.reshape(len(out), c, -1)
            terms = products.reshape(len(out), o, k, k, high, wide)
            for i, j, window in _windows(k, oh, ow, stride):
                out += terms[:, :, i, j][window]
    return y


def backward(
    layer: Conv2d, x: np.ndarray, w: np.ndarray, dy: np.ndarray, needs_dx: bool = True
) -> tuple[np.ndarray, ...]:
    """Gradients (dx, dw, db) from dy (n, o, oh, ow); (dw, db) if not needs_dx."""
    (o, c, k, _), stride, padding = w.shape, layer.stride, layer.padding
    oh, ow = dy.shape[2:]
    high, wide = x.shape[2] + 2 * padding, x.shape[3] + 2 * padding
    dx, dw = np.empty_like(x), np.zeros_like(w)
    for some in _parts(len(x), (c if c <= FEWER * o else o) * k * k * high * wide):
        padded, above = _pad(x[some], padding), dy[some]
        if c <= FEWER * o:
            flat = above.reshape(len(above), o, -1)
            dw += (flat @ _met(padded, k, oh, ow, stride).transpose(0, 2, 1)).sum(axis=0).reshape(w.shape)
            if not needs_dx:
                continue
            terms = (w.reshape(o, -1).T @ flat).reshape(len(above), c, k, k, oh, ow)
            dpadded = np.zeros_like(padded)
            for i, j, window in _windows(k, oh, ow, stride):
                dpadded[window] += terms[:, :, i, j]
        else:
            spread = np.zeros((len(above), o, k, k, high, wide))  # dy, shifted by each kernel element
            for i, j, window in _windows(k, oh, ow, stride):
                spread[:, :, i, j][window] = above
            flat = spread.reshape(len(above), o * k * k, -1)
            found = (flat @ padded.reshape(len(above), c, -1).transpose(0, 2, 1)).sum(axis=0)
            dw += found.reshape(o, k, k, c).transpose(0, 3, 1, 2)
            if not needs_dx:
                continue
            dpadded = (w.transpose(1, 0, 2, 3).reshape(c, -1) @ flat).reshape(padded.shape)
        dx[some] = dpadded[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]
    trained = dw, dy.sum(axis=(0, 2, 3))
    return (dx, *trained) if needs_dx else trained


def _parts(n: int, each: int) -> Iterator[slice]:
    """Slices of the samples 0 to n - 1, for patches of `each` numbers a sample."""
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
    """Patches (n, c k k, oh ow): the pixel under each kernel element at each position of the kernel."""
    (n, c), (sample, channel, row, column) = padded.shape[:2], padded.strides
    strides = sample, channel, row, column, stride * row, stride * column
    met = np.lib.stride_tricks.as_strided(padded, (n, c, k, k, oh, ow), strides, writeable=False)
    return met.reshape(n, c * k * k, oh * ow)  # a copy


@lru_cache(maxsize=64)
def _windows(k: int, oh: int, ow: int, stride: int) -> tuple[tuple[int, int, tuple[slice, ...]], ...]:
    """Kernel elements (i, j), each with the slices of a padded image that it reads."""
    rows = [slice(i, i + stride * (oh - 1) + 1, stride) for i in range(k)]
    columns = [slice(j, j + stride * (ow - 1) + 1, stride) for j in range(k)]
    return tuple((i, j, (slice(None), slice(None), rows[i], columns[j])) for i, j in np.ndindex(k, k))
