"""Stochastic gradient descent as a kernel, 16 bytes at a time."""

from __future__ import annotations

from pathlib import Path

from ...config import TrainConfig
from ...device import Array, Device
from ..grids import flat
from ..kernels import Launches
from .cuda import NaiveSGD, settings

WIDE = Path(__file__).with_name("wide.cu")


class WideSGD(NaiveSGD):
    """One thread for four parameters. Arrays whose size four does not divide are left to the naive kernel; a trainer has none."""

    def __init__(self, device: Device, config: TrainConfig, params: Array, grads: Array, velocity: Array, block_size: int) -> None:
        super().__init__(device, config, params, grads, velocity, block_size)
        self.by_four = device.kernel(WIDE, "sgd_by_four") if params.size % 4 == 0 else None

    def launches(self) -> Launches:
        if self.by_four is None:
            return super().launches()
        count = self.params.size // 4
        return [flat(self.by_four, count, self.block_size, self.params, self.grads, self.velocity, count, *settings(self.config))]
