"""Softmax cross-entropy in one kernel, a warp for each sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands

TILED = Path(__file__).with_name("tiled.cu")

#: Blocks at most; beyond them warps take several samples each.
BLOCKS = 1024


class TiledCrossEntropy(LossSegment):
    """One launch. block_size / 32 samples a block."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        capacity, self.classes = self.x.shape
        self.kernel = device.kernel(TILED, "cross_entropy_by_warps")
        most = self._blocks(capacity)
        self.parts = self.scratch((most,), np.float64)
        self.counts = self.scratch((most,), np.int64)
        self.arrived = self.scratch((1,), np.uint32)
        device.fill(self.arrived, 0)

    def forward(self, part: Slice) -> Launches:
        n, batch = part.n, part.batch
        scratch = self.parts, self.counts, self.arrived
        log = *self.log.entry(part.has_loss), int(part.first), int(part.last)
        arguments = self.x, self.target, self.dx, *scratch, n, self.classes, batch, *log
        return [self.kernel.bind(self._blocks(n), self.block_size, *arguments)]

    def _blocks(self, n: int) -> int:
        return min(BLOCKS, ceil_div(n, self.block_size // 32))
