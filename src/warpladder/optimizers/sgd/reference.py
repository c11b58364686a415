"""Stochastic gradient descent as torch.optim.SGD defines it (dampening 0); any shape, float64."""

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
    if not optimizer.momentum:
        return w - rate * g, {}
    v = optimizer.momentum * slots["momentum_buffer"] + g
    g = g + optimizer.momentum * v if optimizer.nesterov else v
    return w - rate * g, {"momentum_buffer": v}
