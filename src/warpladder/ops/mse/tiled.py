"""Mean squared error in one kernel."""

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands

TILED = Path(__file__).with_name("tiled.cu")
#: Most blocks; beyond them threads take several numbers each.
BLOCKS = 1024


class TiledMSE(LossSegment):
    """Mean squared error in one launch, by four numbers at a time if a sample's size is a multiple of four.

    Without a dx it computes the loss alone: the launch that wrote x has written the gradient.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.size = math.prod(self.x.shape[1:])
        self.width = 4 if self.size % 4 == 0 else 1
        self.kernel = device.kernel(TILED, f"mse_by_warps<{'float4' if self.width == 4 else 'float'}>")
        self.scratched = self.scratch((self._blocks(len(self.x)),), np.float64), self.counters()

    def forward(self, part: Slice) -> Launches:
        counts = part.n * self.size // self.width, part.batch * self.size
        if self.dx is None and not part.has_loss:
            counts = 0, counts[1]  # the count of steps alone
        arguments = self.x, self.target, self.dx, *self.scratched, *counts, *self.entry(part)
        return [self.kernel.bind(self._blocks(part.n), self.block_size, *arguments)]

    def _blocks(self, n: int) -> int:
        return min(BLOCKS, ceil_div(n * self.size // self.width, self.block_size))
