"""Stochastic gradient descent as a loop over parameters, compiled by numba."""

from __future__ import annotations

import numpy as np


def step(w: np.ndarray, g: np.ndarray, v: np.ndarray, unused: np.ndarray, numbers: np.ndarray) -> None:
    """Change w and v, (params,) each, by gradient g; v is empty without momentum. numbers : (NUMBERS,) of this step."""
    rate, momentum, nesterov, decay = numbers[0], numbers[1], numbers[2], numbers[3]
    if len(v) == 0:
        for i in range(len(w)):
            w[i] -= rate * (g[i] + decay * w[i])
    else:
        for i in range(len(w)):
            gradient = g[i] + decay * w[i]
            v[i] = momentum * v[i] + gradient
            w[i] -= rate * (gradient + momentum * v[i] if nesterov != 0 else v[i])
