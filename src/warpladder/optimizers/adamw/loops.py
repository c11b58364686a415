"""AdamW as a loop over parameters, compiled by numba."""

from __future__ import annotations

import numpy as np


def step(w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, numbers: np.ndarray) -> None:
    """Change w, m and v, (params,) each, by gradient g. numbers : (NUMBERS,) of this step."""
    rate, beta1, rest1, beta2, rest2 = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    root, eps, decay = numbers[5], numbers[6], numbers[7]
    for i in range(len(w)):
        m[i] = beta1 * m[i] + rest1 * g[i]
        v[i] = beta2 * v[i] + rest2 * g[i] * g[i]
        w[i] -= decay * w[i] + rate * m[i] / (np.sqrt(v[i]) * root + eps)
