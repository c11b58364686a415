"""Mean squared error in one kernel."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...device import Array, Device
from ..kernels import KernelLoss, Launches, Log, ceil_div

TILED = Path(__file__).with_name("tiled.cu")

#: Blocks at most; beyond them threads take several numbers each.
BLOCKS = 1024


class TiledMSE(KernelLoss):
    """One launch, four numbers at a time where a sample's size is a multiple of four."""

    def __init__(self, device: Device, x: Array, target: Array, dx: Array, log: Log, block_size: int) -> None:
        super().__init__(device, x, target, dx, log, block_size)
        self.size = math.prod(x.shape[1:])
        self.width = 4 if self.size % 4 == 0 else 1
        self.kernel = device.kernel(TILED, f"mse_by_warps<{'float4' if self.width == 4 else 'float'}>")
        self.parts = self.scratch((self._blocks(len(x)),), np.float64)
        self.arrived = self.scratch((1,), np.uint32)
        device.fill(self.arrived, 0)

    def launches(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        counts = n * self.size // self.width, batch * self.size
        log = self.log.step, self.log.loss, self.log.correct, int(first), int(last)
        return [self.kernel.bind(self._blocks(n), self.block_size, self.x, self.target, self.dx, self.parts, self.arrived, *counts, *log)]

    def _blocks(self, n: int) -> int:
        return min(BLOCKS, ceil_div(n * self.size // self.width, self.block_size))
