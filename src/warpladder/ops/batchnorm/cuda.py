"""CUDA launcher of batch normalisation."""

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ...nets import BatchNorm1d, BatchNorm2d
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveBatchNorm(Segment):
    """Batch normalisation: one block sums a channel, one thread normalises a number; a batch is one slice."""

    cost = 4

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        (layer,) = subgraph.layers
        assert isinstance(layer, BatchNorm1d | BatchNorm2d)
        self.layer, (_, self.channels, *pixels) = layer, self.buffers.x.shape
        self.size = math.prod(pixels)
        self.trains = subgraph.config is not None
        self.statistics, self.sums = (self.scratch((2, self.channels), np.float64) for _ in range(2))
        names = "statistics", "running", "forward", "sums", "backward"
        self.moments, self.running, self.map, self.adding, self.gradient = (
            device.kernel(NAIVE, f"batchnorm_{name}") for name in names
        )

    def forward(self, part: Slice) -> Launches:
        t, layer, channels = self.buffers, self.layer, self.channels
        shape, each = (channels, self.size), part.n * self.size
        if self.trains:
            arguments = t.x, self.statistics, t.mean, t.var, each, *shape, layer.eps, layer.momentum
            first = self.moments.bind(channels, self.block_size, *arguments)
        else:
            first = flat(self.running, channels, self.block_size, t.mean, t.var, self.statistics, channels, layer.eps)
        count = each * channels
        return [first, flat(self.map, count, self.block_size, t.x, self.statistics, t.w, t.b, t.y, count, *shape)]

    def backward(self, part: Slice) -> Launches:
        t, shape, each = self.buffers, (self.channels, self.size), part.n * self.size
        common = t.x, t.dy, self.statistics, self.sums
        adding = self.adding.bind(self.channels, self.block_size, *common, t.dw, t.db, each, *shape)
        if t.dx is None:
            return [adding]
        count = each * self.channels
        return [adding, flat(self.gradient, count, self.block_size, *common, t.w, t.dx, count, each, *shape)]
