"""CUDA launcher of batch normalisation with an activation and 2 x 2 max pooling after it."""

from pathlib import Path

import numpy as np

from ...device import Call, Device
from ...nets import BatchNorm2d, Layer, MaxPool2d
from ..activation.fused import ENDS
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands
from ..update.fused import settings
from .fused import PARTS, RUNNING, Division, FusedBatchNorm

POOLED = Path(__file__).with_name("pooled.cu")


class PooledBatchNorm(FusedBatchNorm):
    """BatchNorm2d [activation] MaxPool2d(2): y and dx in one launch each or, with sums in parts, two."""

    masks_dy = False

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.image = self.buffers.x.shape[2:]
        self.argmax = self.scratch(self.buffers.y.shape, np.uint8) if self.trains else None

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        pool = subgraph.layers[-1]
        return isinstance(pool, MaxPool2d) and (pool.kernel_size, pool.stride) == (2, 2)

    def _windows(self, part: Slice, division: Division) -> tuple[int, int]:
        """Windows of a channel, incomplete ones at odd edges among them, and windows of a block."""
        high, wide = self.image
        windows = part.n * ceil_div(high, 2) * ceil_div(wide, 2)
        return windows, ceil_div(windows, division.chunks)

    def forward(self, part: Slice) -> Launches:
        t, layer = self.buffers, self.layer
        division = self.divided(part.n)
        if not self.trains:
            division = division._replace(source=RUNNING)
        shape = *self._windows(part, division), self.channels, *self.image
        found: Launches = []
        if division.source == PARTS:
            arguments: tuple[object, ...] = t.x, self.parts, *division.numbers, self.channels
            found.append(self._kernel("norm_moments", division, arguments=arguments))
        arguments = t.x, t.y, self.argmax, t.w, t.b, t.mean, t.var, self.saved, self.parts
        arguments = *arguments, *division.numbers, *shape, layer.eps, layer.momentum, self.slope
        name = f"pool_forward<{division.wide}, {self.function}, {division.source}>"
        return [*found, self._pooled(name, division, arguments)]

    def backward(self, part: Slice) -> Launches:
        t = self.buffers
        if t.dx is None and t.dw is None:
            return []
        division = self.divided(part.n)
        common = t.x, t.dy, self.argmax, self.saved, self.parts
        shape = division.chunks, *self._windows(part, division), self.channels, *self.image
        found: Launches = []
        if division.source == PARTS:
            found.append(self._pooled(f"pool_sums<{self.function}>", division, (*common, *shape, self.slope)))
        arguments = *common, t.dx, t.dw, t.db, *shape, part.n * self.size, self.slope, *settings(self.update, part)
        return [*found, self._pooled(f"pool_backward<{self.function}, {division.source}>", division, arguments)]

    def _pooled(self, name: str, division: Division, arguments: tuple[object, ...]) -> Call:
        kernel = self.device.kernel(POOLED, name)
        return kernel.bind(division.blocks, division.threads, *arguments)


#: Runs of layers that the segment computes.
CHAINS: list[tuple[type[Layer], ...]] = [(BatchNorm2d, *after, MaxPool2d) for after in ENDS]
