"""RMSprop as torch.optim.RMSprop defines it; any shape, float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def step(
    w: np.ndarray, g: np.ndarray, slots: Mapping[str, np.ndarray], optimizer: Any, rate: float, number: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Parameters and slots after an update of parameters w with gradient g; all arrays have the shape of w.

    rate : learning rate. number : of the update, from 1; not used.
    """
    g = g + optimizer.weight_decay * w
    square = optimizer.alpha * slots["square_avg"] + (1 - optimizer.alpha) * g**2
    quotient = g / (np.sqrt(square) + optimizer.eps)
    if not optimizer.momentum:
        return w - rate * quotient, {"square_avg": square}
    buffer = optimizer.momentum * slots["momentum_buffer"] + quotient
    return w - rate * buffer, {"square_avg": square, "momentum_buffer": buffer}
