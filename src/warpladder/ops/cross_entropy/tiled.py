"""Softmax cross-entropy in one kernel, a warp for each sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...device import Array, Device
from ..kernels import KernelLoss, Launches, Log, ceil_div

TILED = Path(__file__).with_name("tiled.cu")

#: Blocks at most; beyond them warps take several samples each.
BLOCKS = 1024


class TiledCrossEntropy(KernelLoss):
    """One launch. block_size / 32 samples a block."""

    def __init__(self, device: Device, x: Array, target: Array, dx: Array, log: Log, block_size: int) -> None:
        super().__init__(device, x, target, dx, log, block_size)
        capacity, self.classes = x.shape
        self.kernel = device.kernel(TILED, "cross_entropy_by_warps")
        most = self._blocks(capacity)
        self.parts = self.scratch((most,), np.float64)
        self.counts = self.scratch((most,), np.int64)
        self.arrived = self.scratch((1,), np.uint32)
        device.fill(self.arrived, 0)

    def launches(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        scratch = self.parts, self.counts, self.arrived
        log = self.log.step, self.log.loss, self.log.correct, int(first), int(last)
        arguments = self.x, self.target, self.dx, *scratch, n, self.classes, batch, *log
        return [self.kernel.bind(self._blocks(n), self.block_size, *arguments)]

    def _blocks(self, n: int) -> int:
        return min(BLOCKS, ceil_div(n, self.block_size // 32))
