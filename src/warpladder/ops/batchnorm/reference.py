"""Textbook batch normalisation in float64. Shapes: x (n, channels) or (n, channels, height, width)."""

import numpy as np

from ...nets import BatchNorm1d, BatchNorm2d

Norm = BatchNorm1d | BatchNorm2d


def axes(x: np.ndarray) -> tuple[int, ...]:
    """Axes of x over which the statistics of a channel are taken: samples and pixels."""
    return (0, *range(2, x.ndim))


def across(a: np.ndarray | None, x: np.ndarray) -> np.ndarray | float:
    """Numbers (channels,) reshaped to broadcast over x; 1 for None."""
    return 1.0 if a is None else a.reshape(-1, *[1] * (x.ndim - 2))


def normalised(layer: Norm, x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Normalised x: (x - mean) / sqrt(var + eps), with mean and var (channels,)."""
    return (x - across(mean, x)) / across(np.sqrt(var + layer.eps), x)


def mapped(z: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """Affine map z w + b of normalised z, shaped as x, with w and b (channels,); z itself if w or b is None."""
    return z if w is None or b is None else z * across(w, z) + across(b, z)


def forward(layer: Norm, x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """Output y, shaped as x, of batch normalisation in training: by the mean and biased variance of the batch x."""
    return mapped(normalised(layer, x, x.mean(axes(x)), x.var(axes(x))), w, b)


def predict(
    layer: Norm, x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, mean: np.ndarray, var: np.ndarray
) -> np.ndarray:
    """Output of batch normalisation in predictions, by the running mean and variance, (channels,) each."""
    return mapped(normalised(layer, x, mean, var), w, b)


def moved(layer: Norm, x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Running mean and unbiased variance, (channels,) each, after a batch x."""
    share = layer.momentum
    return (1 - share) * mean + share * x.mean(axes(x)), (1 - share) * var + share * x.var(axes(x), ddof=1)


def backward(layer: Norm, x: np.ndarray, w: np.ndarray | None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients (dx, dw, db) of batch normalisation, or (dx,) without parameters; mean and variance depend on x."""
    z = normalised(layer, x, x.mean(axes(x)), x.var(axes(x)))
    dz = dy * across(w, x)
    dx = dz - across(dz.mean(axes(x)), x) - z * across((dz * z).mean(axes(x)), x)
    dx = dx / across(np.sqrt(x.var(axes(x)) + layer.eps), x)
    return (dx, (dy * z).sum(axes(x)), dy.sum(axes(x))) if layer.affine else (dx,)
