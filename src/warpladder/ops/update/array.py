"""Update as array expressions on flat buffers of NumPy or CuPy."""

import numpy as np

from ...config import TrainConfig
from ..engine.base import Array, UpdateOp, module_of
from .reference import EPSILON


class ArrayUpdate(UpdateOp):
    """Update by one pass over the parameters for each array expression."""

    def __init__(self, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...]) -> None:
        super().__init__(config, params, grads, slots)
        self.xp = module_of(params)
        self.term = self.scratch(params, params.shape, params.dtype)
        if config.clip_norm is not None:
            self.squares = self.scratch(params, params.shape, np.float64)
        self.rule = config.optimizer.form("array").step

    def step(self, numbers: np.ndarray) -> None:
        clip = self.config.clip_value
        if self.config.clip_norm is not None:
            self._clip_norm(self.config.clip_norm)
        if clip is not None:
            self.xp.clip(self.grads, self.grads.dtype.type(-clip), self.grads.dtype.type(clip), out=self.grads)
        self.rule(self.xp, self.params, self.grads, self.slots, self.term, numbers)

    def _clip_norm(self, limit: float) -> None:
        """Scale the gradients to an L2 norm of `limit` if it is larger; the float64 norm stays on the device."""
        xp, squares = self.xp, self.squares
        xp.multiply(self.grads, self.grads, out=squares, dtype=np.float64)
        factor = limit / (xp.sqrt(squares.sum()) + EPSILON)
        self.grads *= xp.minimum(factor, 1.0).astype(self.grads.dtype)
