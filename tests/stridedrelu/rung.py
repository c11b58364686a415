"""The naive rung with ReLU's kernel replaced by another one, and with kernels for a layer that warpladder does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leakyrelu import LeakyReLU
from leakyrelu.cuda import CudaLeakyReLU
from warpladder import ReLU
from warpladder.ladder import KernelOptions, Rung
from warpladder.ops.kernels import KernelOp, ceil_div
from warpladder.ops.naive import TABLE
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.kernelwise.where import open_device, why_not

SOURCE = Path(__file__).with_name("relu.cu")


class StridedReLU(KernelOp):
    """A quarter as many threads as there are numbers."""

    def __init__(self, device, layers, buffers, block_size):
        super().__init__(device, layers, buffers, block_size)
        self.forward_kernel = device.kernel(SOURCE, "strided_relu_forward")
        self.backward_kernel = device.kernel(SOURCE, "strided_relu_backward")

    def forward(self, n):
        t, count = self.buffers, self.buffers.x[:n].size
        return [self.forward_kernel.bind(ceil_div(count, 4 * 32), 32, t.x, t.y, count)]

    def backward(self, n):
        t, count = self.buffers, self.buffers.x[:n].size
        return [] if t.dx is None else [self.backward_kernel.bind(ceil_div(count, 4 * 32), 32, t.y, t.dy, t.dx, count)]


def build(net, config, state, options=KernelOptions()):  # noqa: B008  (frozen)
    table = replace(TABLE, layers={**TABLE.layers, (ReLU,): StridedReLU, (LeakyReLU,): CudaLeakyReLU})
    return KernelTrainer(net, config, state, open_device(options.device), table, options.feed or "sync", options.block_size)


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
