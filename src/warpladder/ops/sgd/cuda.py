"""Stochastic gradient descent as a kernel."""

from __future__ import annotations

import math
from pathlib import Path

from ...config import TrainConfig
from ...device import Array, Device
from ..grids import flat
from ..kernels import KernelUpdate, Launches

NAIVE = Path(__file__).with_name("naive.cu")


def settings(config: TrainConfig) -> tuple[float, float, int, float, float]:
    """Rate, momentum, nesterov, decay and limit, as sgd.cuh has them."""
    limit = math.inf if config.clip_value is None else config.clip_value
    return config.learning_rate, config.momentum, int(config.nesterov), config.weight_decay, limit


class NaiveSGD(KernelUpdate):
    """One thread for each parameter of the whole net: one launch a step."""

    def __init__(self, device: Device, config: TrainConfig, params: Array, grads: Array, velocity: Array, block_size: int) -> None:
        super().__init__(device, config, params, grads, velocity, block_size)
        self.kernel = device.kernel(NAIVE, "sgd_step")

    def launches(self) -> Launches:
        count = self.params.size
        return [flat(self.kernel, count, self.block_size, self.params, self.grads, self.velocity, count, *settings(self.config))]
