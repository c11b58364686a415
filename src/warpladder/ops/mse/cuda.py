"""Mean squared error as kernels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands

NAIVE = Path(__file__).with_name("naive.cu")

#: Blocks that add up the loss, at most: enough to keep a GPU busy, few enough for one block to add them.
BLOCKS = 1024


class NaiveMSE(LossSegment):
    """The gradient, one thread for each number; the loss, blocks and then the sum of their sums."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.size = math.prod(self.x.shape[1:])
        self.gradient, self.loss, self.logging = (
            device.kernel(NAIVE, name) for name in ("mse_gradient", "mse_loss", "mse_log")
        )
        self.parts = self.scratch((min(BLOCKS, ceil_div(self.x.size, block_size)),), np.float64)

    def forward(self, part: Slice) -> Launches:
        n, batch = part.n, part.batch
        count, everything = n * self.size, batch * self.size
        blocks = min(BLOCKS, ceil_div(count, self.block_size))
        log = *self.log.entry(part.has_loss), part.first, part.last
        gradient = flat(self.gradient, count, self.block_size, self.x, self.target, self.dx, count, everything)
        sums: Launches = (
            [self.loss.bind(blocks, self.block_size, self.x, self.target, self.parts, count)] if part.has_loss else []
        )
        logging = self.logging.bind(1, self.block_size, self.parts, blocks if part.has_loss else 0, everything, *log)
        return [gradient, *sums, logging]
