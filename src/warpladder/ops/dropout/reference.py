"""Textbook dropout in float64. Without a mask, as in predictions, y = x."""

import numpy as np

from ...data.order import mix32_array
from ...nets import Dropout, Shape


def forward(layer: Dropout, x: np.ndarray, w: None, b: None) -> np.ndarray:
    return x


def backward(layer: Dropout, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray]:
    return (dy,)


def mask(layer: Dropout, key: int, at: np.ndarray, shape: Shape) -> np.ndarray:
    """Masks (n, *shape) float64 of samples, each number 0 or 1 / (1 - p).

    key : the layer's key in the epoch, `data.order.layer_key`. at : (n,) ints, the samples' positions in the epoch's
    order.
    """
    of_sample = mix32_array(at.astype(np.uint32) ^ np.uint32(key))
    hashes = mix32_array(of_sample[:, None] ^ np.arange(np.prod(shape), dtype=np.uint32))
    return np.where(hashes >= layer.threshold, layer.scale, 0.0).reshape(-1, *shape)


def masked(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Product of numbers and their mask, of one shape, with 0 for a dropped NaN."""
    return np.where(mask == 0, 0.0, a * mask)
