"""Adam as torch.optim.Adam defines it, after Kingma and Ba 2015, algorithm 1; any shape, float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def step(
    w: np.ndarray, g: np.ndarray, slots: Mapping[str, np.ndarray], optimizer: Any, rate: float, number: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Parameters and slots after an update of parameters w with gradient g; all arrays have the shape of w.

    rate : learning rate. number : of the update, from 1, for the bias corrections 1 - beta^number.
    """
    one, two = optimizer.betas
    g = g + optimizer.weight_decay * w
    m = one * slots["exp_avg"] + (1 - one) * g
    v = two * slots["exp_avg_sq"] + (1 - two) * g**2
    mean, square = m / (1 - one**number), v / (1 - two**number)
    return w - rate * mean / (np.sqrt(square) + optimizer.eps), {"exp_avg": m, "exp_avg_sq": v}
