"""Stochastic gradient descent as a kernel."""

from __future__ import annotations

import math
from pathlib import Path

from ...config import TrainConfig
from ...device import Array, Device
from ..grids import flat
from ..kernels import KernelUpdate, Launches

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveSGD(KernelUpdate):
    """One thread for each parameter of the whole net: one launch a step."""

    def __init__(self, device: Device, config: TrainConfig, params: Array, grads: Array, velocity: Array, block_size: int) -> None:
        super().__init__(device, config, params, grads, velocity, block_size)
        self.kernel = device.kernel(NAIVE, "sgd_step")

    def launches(self) -> Launches:
        c = self.config
        limit = math.inf if c.clip_value is None else c.clip_value
        settings = c.learning_rate, c.momentum, c.nesterov, c.weight_decay, limit
        count = self.params.size
        return [flat(self.kernel, count, self.block_size, self.params, self.grads, self.velocity, count, *settings)]
