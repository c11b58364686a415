"""The naive rung with ReLU's kernel replaced by another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warpladder import ReLU
from warpladder.ladder import KernelOptions, Rung
from warpladder.ops.engine.kernels import ceil_div
from warpladder.ops.engine.segments import Segment
from warpladder.ops.tables.naive import TABLE
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.kernelwise.where import open_device, why_not

SOURCE = Path(__file__).with_name("relu.cu")


class StridedReLU(Segment):
    """A quarter as many threads as there are numbers."""

    def __init__(self, device, subgraph, operands, block_size):
        super().__init__(device, subgraph, operands, block_size)
        self.forward_kernel = device.kernel(SOURCE, "strided_relu_forward")
        self.backward_kernel = device.kernel(SOURCE, "strided_relu_backward")

    def forward(self, part):
        t, count = self.buffers, self.buffers.x[: part.n].size
        return [self.forward_kernel.bind(ceil_div(count, 4 * 32), 32, t.x, t.y, count)]

    def backward(self, part):
        t, count = self.buffers, self.buffers.x[: part.n].size
        return [] if t.dx is None else [self.backward_kernel.bind(ceil_div(count, 4 * 32), 32, t.y, t.dy, t.dx, count)]


def build(net, config, state, options=KernelOptions()):  # noqa: B008  (frozen)
    table = replace(TABLE, segments={**TABLE.segments, (ReLU,): StridedReLU})
    return KernelTrainer(
        net, config, state, open_device(options.device), table, options.feed or "sync", options.block_size
    )


def unsupported(net, config, options=KernelOptions()):  # noqa: B008
    return config.optimizer.lacks("step.cu") or why_not(options.device)


RUNG = Rung(
    name="strided",
    title="naive, with ReLU in strides",
    idea="The naive rung, but a thread of ReLU computes several numbers, as many apart as the grid has threads.",
    build=build,
    unsupported=unsupported,
    options=KernelOptions(),
)
