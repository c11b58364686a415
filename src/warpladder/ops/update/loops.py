"""Update as compiled loops over all parameters."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...optimizers import Optimizer
from ..engine.base import Array, UpdateOp
from ..jit.cache import compiled
from .reference import EPSILON


@compiled
def clip(g: np.ndarray, limit: float) -> None:
    """Clip every number of the gradient g (params,) to [-limit, limit], in place."""
    for i in range(len(g)):
        if abs(g[i]) > limit:  # NaN stays NaN
            g[i] = min(max(g[i], -limit), limit)


@compiled
def clip_norm(g: np.ndarray, limit: float) -> None:
    """Scale the gradient g (params,), in place, to an L2 norm of `limit` if its norm is larger. Squares are added in
    float64.
    """
    total = 0.0
    for i in range(len(g)):
        total += np.float64(g[i]) * np.float64(g[i])
    factor = limit / (math.sqrt(total) + EPSILON)
    if not factor >= 1:  # a NaN norm makes all gradients NaN
        for i in range(len(g)):
            g[i] *= factor


@cache
def compiled_rule(optimizer: type[Optimizer]) -> Callable[..., Any]:
    """Compiled loop of an optimizer's step, with IEEE divisions, so that it can be vectorised."""
    return compiled(error_model="numpy")(optimizer.form("loops").step)


class LoopsUpdate(UpdateOp):
    """Update by a loop that clips and a loop of the step."""

    def __init__(self, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...]) -> None:
        super().__init__(config, params, grads, slots)
        self.rule = compiled_rule(type(config.optimizer))
        nothing = np.zeros(0, params.dtype)
        self.two = (*slots, nothing, nothing)[:2]

    def step(self, numbers: np.ndarray) -> None:
        if self.config.clip_norm is not None:
            clip_norm(self.grads, self.config.clip_norm)
        if self.config.clip_value is not None:
            clip(self.grads, self.config.clip_value)
        self.rule(self.params, self.grads, *self.two, numbers)
