"""Stochastic gradient descent as array expressions on the flat buffers."""

from __future__ import annotations

import numpy as np

from ...config import TrainConfig
from ..base import Array, UpdateOp, module_of


class ArraySGD(UpdateOp):
    """g is clipped; g += decay * w; v = momentum * v + g; w -= rate * v, or rate * (g + momentum * v) for Nesterov."""

    def __init__(self, config: TrainConfig, params: Array, grads: Array, velocity: Array) -> None:
        super().__init__(config, params, grads, velocity)
        self.term = self.scratch(params, params.shape)

    def step(self) -> None:
        c, w, g, v, term = self.config, self.params, self.grads, self.velocity, self.term
        xp = module_of(w)
        if c.clip_value is not None:
            xp.clip(g, np.float32(-c.clip_value), np.float32(c.clip_value), out=g)
        if c.weight_decay:
            g += xp.multiply(w, np.float32(c.weight_decay), out=term)
        if c.momentum:
            v *= np.float32(c.momentum)
            v += g
            if c.nesterov:
                g += xp.multiply(v, np.float32(c.momentum), out=term)
            else:
                g = v
        w -= xp.multiply(g, np.float32(c.learning_rate), out=term)
