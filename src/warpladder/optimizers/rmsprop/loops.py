"""RMSprop as a loop over parameters, compiled by numba."""

from __future__ import annotations

import numpy as np


def step(w: np.ndarray, g: np.ndarray, square: np.ndarray, buffer: np.ndarray, numbers: np.ndarray) -> None:
    """Change w, square and, if not empty, buffer, (params,) each, by gradient g. numbers : (NUMBERS,) of this step."""
    rate, alpha, rest = numbers[0], numbers[1], numbers[2]
    eps, decay, momentum = numbers[3], numbers[4], numbers[5]
    has_momentum = len(buffer) > 0
    for i in range(len(w)):
        gradient = g[i] + decay * w[i]
        square[i] = alpha * square[i] + rest * gradient * gradient
        change = gradient / (np.sqrt(square[i]) + eps)
        if has_momentum:
            buffer[i] = momentum * buffer[i] + change
            change = buffer[i]
        w[i] -= rate * change
