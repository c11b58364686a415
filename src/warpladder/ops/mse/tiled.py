"""Mean squared error in one kernel."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands

TILED = Path(__file__).with_name("tiled.cu")

#: Blocks at most; beyond them threads take several numbers each.
BLOCKS = 1024


class TiledMSE(LossSegment):
    """One launch, four numbers at a time where a sample's size is a multiple of four. Without a dx the loss alone:
    the launch that wrote x has written its gradient.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.size = math.prod(self.x.shape[1:])
        self.width = 4 if self.size % 4 == 0 else 1
        self.kernel = device.kernel(TILED, f"mse_by_warps<{'float4' if self.width == 4 else 'float'}>")
        self.parts = self.scratch((self._blocks(len(self.x)),), np.float64)
        self.arrived = self.scratch((1,), np.uint32)
        device.fill(self.arrived, 0)

    def forward(self, part: Slice) -> Launches:
        n, batch = part.n, part.batch
        counts = n * self.size // self.width, batch * self.size
        log = *self.log.entry(part.has_loss), int(part.first), int(part.last)
        if self.dx is None and not part.has_loss:
            counts = 0, counts[1]  # the count of steps alone
        return [
            self.kernel.bind(
                self._blocks(n), self.block_size, self.x, self.target, self.dx, self.parts, self.arrived, *counts, *log
            )
        ]

    def _blocks(self, n: int) -> int:
        return min(BLOCKS, ceil_div(n * self.size // self.width, self.block_size))
