"""ReLU, as the textbook has it; any shape, float64."""

from __future__ import annotations

import numpy as np

#: Below this, relative to a sample's root mean square, a float64 number is zero but for its own rounding.
STRUCTURAL = 1e-12


def forward(x: np.ndarray) -> np.ndarray:
    """y = max(x, 0)."""
    return np.maximum(x, 0)


def backward(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dx = dy where x > 0, else 0; the derivative at 0 is 0."""
    return np.where(x > 0, dy, 0)


def margin(x: np.ndarray) -> np.ndarray:
    """(n,): how far each sample's closest x is from the switch at 0, relative to the sample's root mean square.

    An x of exactly 0 does not count (`STRUCTURAL`): it comes from zeros in the data, not from a close call.
    """
    flat = np.abs(x.reshape(len(x), -1))
    size = np.sqrt(np.mean(flat**2, axis=1, keepdims=True))
    return closest(flat, size)


def closest(distances: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(n,): the smallest of each sample's distances (n, count), in units of its size (n, 1), of those that are not zero
    but for rounding; inf without any.
    """
    nearest = np.where(distances > STRUCTURAL * size, distances, np.inf).min(axis=1, keepdims=True)
    return np.divide(nearest, size, out=np.full(size.shape, np.inf), where=size > 0)[:, 0]
