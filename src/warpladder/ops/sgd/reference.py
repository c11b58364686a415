"""Stochastic gradient descent, as torch.optim.SGD defines it (dampening 0); any shape, float64."""

from __future__ import annotations

import numpy as np

from ...config import TrainConfig


def step(w: np.ndarray, g: np.ndarray, v: np.ndarray, config: TrainConfig) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and velocity after one step from w, v with gradient g."""
    if config.clip_value is not None:
        g = np.clip(g, -config.clip_value, config.clip_value)
    g = g + config.weight_decay * w
    if config.momentum:
        v = config.momentum * v + g
        g = g + config.momentum * v if config.nesterov else v
    return w - config.learning_rate * g, v
