"""CUDA launcher of the mean squared error on the naive rung."""

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands

NAIVE = Path(__file__).with_name("naive.cu")
#: Most blocks that add up the loss: enough to keep a GPU busy, few enough for one block to add their sums.
BLOCKS = 1024


class NaiveMSE(LossSegment):
    """Mean squared error in three launches: the gradient, the loss by block, and its sum with the log entry."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.size = math.prod(self.x.shape[1:])
        names = "mse_gradient", "mse_loss", "mse_log"
        self.gradient, self.loss, self.logging = (device.kernel(NAIVE, name) for name in names)
        self.parts = self.scratch((min(BLOCKS, ceil_div(self.x.size, block_size)),), np.float64)

    def forward(self, part: Slice) -> Launches:
        count, everything, size = part.n * self.size, part.batch * self.size, self.block_size
        blocks = min(BLOCKS, ceil_div(count, size))
        found: Launches = [flat(self.gradient, count, size, self.x, self.target, self.dx, count, everything)]
        if part.has_loss:
            found.append(self.loss.bind(blocks, size, self.x, self.target, self.parts, count))
        parts = self.parts, blocks if part.has_loss else 0, everything
        return [*found, self.logging.bind(1, size, *parts, *self.entry(part))]
