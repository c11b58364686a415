"""Textbook ReLU in float64, for any shape."""

import numpy as np

from ...nets import ReLU

#: Relative to a sample's root mean square, a smaller float64 number is zero but for its own rounding.
STRUCTURAL = 1e-12


def forward(layer: ReLU, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """ReLU output y = max(x, 0), of the shape of x."""
    return np.maximum(x, 0)


def backward(layer: ReLU, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Input gradient (dx,): dx = dy where x > 0, else 0; the derivative at 0 is 0."""
    return (np.where(x > 0, dy, 0),)


def margin(layer: ReLU, x: np.ndarray) -> np.ndarray:
    """Distance (n,) of each sample's closest x from 0, where the gradient jumps, relative to the sample's root mean
    square.

    An x of exactly 0 is left out (`STRUCTURAL`): it comes from zeros in the data, not from rounding.
    """
    flat = np.abs(x.reshape(len(x), -1))
    size = np.sqrt(np.mean(flat**2, axis=1, keepdims=True))
    return closest(flat, size)


def closest(distances: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Smallest nonzero distance (n,) of each sample's distances (n, count), relative to its size (n, 1); inf without
    one. Distances up to STRUCTURAL * size are taken as 0.
    """
    nearest = np.where(distances > STRUCTURAL * size, distances, np.inf).min(axis=1, keepdims=True)
    return np.divide(nearest, size, out=np.full(size.shape, np.inf), where=size > 0)[:, 0]
