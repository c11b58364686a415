"""AdamW as torch.optim.AdamW defines it, after Loshchilov and Hutter 2019, algorithm 2; any shape, float64."""

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
    m = one * slots["exp_avg"] + (1 - one) * g
    v = two * slots["exp_avg_sq"] + (1 - two) * g**2
    mean, square = m / (1 - one**number), v / (1 - two**number)
    w = w - rate * optimizer.weight_decay * w
    return w - rate * mean / (np.sqrt(square) + optimizer.eps), {"exp_avg": m, "exp_avg_sq": v}
