"""Stochastic gradient descent as a kernel, 16 bytes at a time."""

from __future__ import annotations

import math
from pathlib import Path

from ...config import TrainConfig
from ...device import Array, Device
from ..grids import flat
from ..kernels import Launches
from .cuda import NaiveSGD

WIDE = Path(__file__).with_name("wide.cu")


class WideSGD(NaiveSGD):
    """One thread for four parameters. Arrays whose size four does not divide are left to the naive kernel; a trainer has none."""

    def __init__(self, device: Device, config: TrainConfig, params: Array, grads: Array, velocity: Array, block_size: int) -> None:
        super().__init__(device, config, params, grads, velocity, block_size)
        self.by_four = device.kernel(WIDE, "sgd_by_four") if params.size % 4 == 0 else None

    def launches(self) -> Launches:
        if self.by_four is None:
            return super().launches()
        c, count = self.config, self.params.size // 4
        limit = math.inf if c.clip_value is None else c.clip_value
        settings = c.learning_rate, c.momentum, int(c.nesterov), c.weight_decay, limit
        return [flat(self.by_four, count, self.block_size, self.params, self.grads, self.velocity, count, *settings)]
