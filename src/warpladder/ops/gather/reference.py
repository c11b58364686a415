"""A batch: rows of the data set, as the float32 numbers that every rung trains on."""

import numpy as np


def rows(source: np.ndarray, indices: np.ndarray, scale: float) -> np.ndarray:
    """(n, *shape) float32: source[indices] * scale, the product rounded to float32."""
    return source[indices].astype(np.float32) * np.float32(scale)
