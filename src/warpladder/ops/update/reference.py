"""Textbook update in float64, the reference of all others."""

from collections.abc import Mapping

import numpy as np

from ...config import TrainConfig

#: Added to a norm, as PyTorch does, so that gradients of zero stay zero.
EPSILON = 1e-6


def norm_factor(g: np.ndarray, limit: float) -> float:
    """Factor, at most 1, that scales all gradients g (params,) of a step to an L2 norm of at most `limit`."""
    return float(np.minimum(1.0, limit / (np.linalg.norm(g) + EPSILON)))


def step(
    w: np.ndarray, g: np.ndarray, slots: Mapping[str, np.ndarray], config: TrainConfig, rate: float, number: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Parameters and the optimizer's slots after a step.

    w, g : all parameters and the gradient of the loss by them, of one shape.
    slots : arrays of `Optimizer.slots`, by name, of the same shape.
    rate : learning rate of this step.
    number : number of the update, from 1.
    """
    if config.clip_norm is not None:
        g = g * norm_factor(g, config.clip_norm)
    if config.clip_value is not None:
        g = np.clip(g, -config.clip_value, config.clip_value)
    return config.optimizer.form("reference").step(w, g, slots, config.optimizer, rate, number)
