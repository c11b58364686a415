"""Linear as kernels."""

from __future__ import annotations

from pathlib import Path

from ...device import Device
from ...nets import Layer
from ..base import Buffers
from ..grids import by_sample
from ..kernels import KernelOp, Launches, ceil_div
from ..sums.cuda import ColumnSums, SampleSums

NAIVE = Path(__file__).with_name("naive.cu")

#: Outputs that a block covers in the forward pass; its other axis is samples. linear/naive.cu says why.
ACROSS = 8

#: Samples in a slab of the weights' gradient, at least.
LEAST = 64


class NaiveLinear(KernelOp):
    """One thread for each number of y, dx, dw and db."""

    def __init__(self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, block_size: int) -> None:
        super().__init__(device, layers, buffers, block_size)
        (capacity, self.inputs), self.outputs = buffers.x.shape, buffers.y.shape[1]
        self.forward_kernel = device.kernel(NAIVE, "linear_forward")
        if buffers.dy is not None:
            self.input_gradient = device.kernel(NAIVE, "linear_input_gradient")
            self.weight_gradient = device.kernel(NAIVE, "linear_weight_gradient")
            self.weight_sums = SampleSums(device, capacity, self.inputs * self.outputs, LEAST, block_size)
            self.bias_sums = ColumnSums(device, capacity, self.outputs, block_size)
            self.workspace += self.weight_sums.workspace + self.bias_sums.workspace

    def forward(self, n: int) -> Launches:
        t = self.buffers
        block = ACROSS, self.block_size // ACROSS
        grid = ceil_div(self.outputs, block[0]) * ceil_div(n, block[1])
        return [self.forward_kernel.bind(grid, block, t.x, t.w, t.b, t.y, n, self.inputs, self.outputs)]

    def backward(self, n: int) -> Launches:
        t, size = self.buffers, (self.inputs, self.outputs)
        found = self.weight_sums.launches(self.weight_gradient, n, t.dw, (t.dy, t.x), size)
        found += self.bias_sums.launches(t.dy, n, t.db)
        if t.dx is not None:
            found.append(by_sample(self.input_gradient, self.inputs, n, self.block_size, t.dy, t.w, t.dx, n, *size))
        return found
