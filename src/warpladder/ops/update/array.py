"""The update as array expressions on the flat buffers, NumPy's or CuPy's."""

import numpy as np

from ...config import TrainConfig
from ..engine.base import Array, UpdateOp, module_of


class ArrayUpdate(UpdateOp):
    """A pass over the parameters for each expression."""

    def __init__(self, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...]) -> None:
        super().__init__(config, params, grads, slots)
        self.xp = module_of(params)
        self.term = self.scratch(params, params.shape, params.dtype)
        self.rule = config.optimizer.form("array").step

    def step(self, numbers: np.ndarray) -> None:
        clip = self.config.clip_value
        if clip is not None:
            self.xp.clip(self.grads, self.grads.dtype.type(-clip), self.grads.dtype.type(clip), out=self.grads)
        self.rule(self.xp, self.params, self.grads, self.slots, self.term, numbers)
