"""Stochastic gradient descent as a loop over all parameters."""

from __future__ import annotations

import math

import numpy as np

from ..base import UpdateOp
from ..compiled import compiled


@compiled
def step(w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float, nesterov: bool, decay: float, clip: float) -> None:
    for i in range(len(w)):
        gradient = min(max(g[i], -clip), clip) if abs(g[i]) > clip else g[i]  # NaN stays NaN
        gradient += decay * w[i]
        if momentum != 0.0:
            v[i] = momentum * v[i] + gradient
            gradient = gradient + momentum * v[i] if nesterov else v[i]
        w[i] -= rate * gradient


class LoopsSGD(UpdateOp):
    def step(self) -> None:
        c = self.config
        clip = math.inf if c.clip_value is None else float(c.clip_value)
        step(
            self.params, self.grads, self.velocity,
            float(c.learning_rate), float(c.momentum), c.nesterov, float(c.weight_decay), clip,
        )  # fmt: skip
