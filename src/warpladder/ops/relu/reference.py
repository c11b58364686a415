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
    relative = np.divide(flat, size, out=np.full(flat.shape, np.inf), where=flat > STRUCTURAL * size)
    return relative.min(axis=1)
