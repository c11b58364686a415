"""ReLU, as the textbook has it; any shape, float64."""

import numpy as np

from ...nets import ReLU

#: Relative to a sample's root mean square, a smaller float64 number is zero but for its own rounding.
STRUCTURAL = 1e-12


def forward(layer: ReLU, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """y = max(x, 0)."""
    return np.maximum(x, 0)


def backward(layer: ReLU, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """(dx,): dx = dy where x > 0, else 0; the derivative at 0 is 0."""
    return (np.where(x > 0, dy, 0),)


def margin(layer: ReLU, x: np.ndarray) -> np.ndarray:
    """Distance of each sample's closest x from the jump of the gradient at 0, (n,), relative to its root mean square.

    An x of exactly 0 does not count (`STRUCTURAL`): it comes from zeros in the data, not from a close call.
    """
    flat = np.abs(x.reshape(len(x), -1))
    size = np.sqrt(np.mean(flat**2, axis=1, keepdims=True))
    return closest(flat, size)


def closest(distances: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Smallest of each sample's distances (n, count) that are not zero but for rounding, (n,), by its size (n, 1); or
    inf.
    """
    nearest = np.where(distances > STRUCTURAL * size, distances, np.inf).min(axis=1, keepdims=True)
    return np.divide(nearest, size, out=np.full(size.shape, np.inf), where=size > 0)[:, 0]
