"""A fused op from outside of the package: ReLU and max-pooling by 2 x 2 as one segment of the naive rung."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.ladder import KernelOptions, Rung, State, Trainer
from warpladder.nets import MaxPool2d, Net, ReLU
from warpladder.ops.engine.chain import Slice, Subgraph
from warpladder.ops.engine.grids import flat
from warpladder.ops.engine.kernels import Launches
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.tables import naive
from warpladder.rungs.naive import RUNG as NAIVE
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.kernelwise.where import open_device

SOURCE = Path(__file__).with_name("relu_pool.cu")


class ReLUPool(Segment):
    """ReLU + MaxPool2d(2): what stands between them is written nowhere; a byte for each window says which of its
    numbers won.
    """

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.forward_kernel = device.kernel(SOURCE, "relu_pool_forward")
        self.backward_kernel = device.kernel(SOURCE, "relu_pool_backward")
        self.argmax = self.scratch(self.buffers.y.shape, np.uint8)
        self.size = self.buffers.x.shape[2:]  # h, w

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        pool = subgraph.layers[-1]
        return isinstance(pool, MaxPool2d) and (pool.kernel_size, pool.stride) == (2, 2)

    def forward(self, part: Slice) -> Launches:
        x, y = self.buffers.x, self.buffers.y
        count = y[: part.n].size
        return [flat(self.forward_kernel, count, self.block_size, x, y, self.argmax, count, *self.size)]

    def backward(self, part: Slice) -> Launches:
        dx, dy = self.buffers.dx, self.buffers.dy
        if dx is None:
            return []
        count = dx[: part.n].size
        return [flat(self.backward_kernel, count, self.block_size, dy, self.argmax, dx, count, *self.size)]


TABLE = replace(naive.TABLE, segments={**naive.TABLE.segments, (ReLU, MaxPool2d): ReLUPool})


def build(net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()) -> Trainer:  # noqa: B008
    return KernelTrainer(
        net, config, state, open_device(options.device), TABLE, options.feed or "sync", options.block_size
    )


RUNG = Rung(
    name="relu-pool",
    title="ReLU and pooling in one pass",
    idea="The naive rung, but that a pool takes the ReLU below it along.",
    build=build,
    unsupported=NAIVE.unsupported,
    options=KernelOptions(),
)
