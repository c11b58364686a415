"""LeakyReLU as kernels."""

from pathlib import Path

import numpy as np

from warpladder.ops.grids import flat
from warpladder.ops.kernels import KernelOp

SOURCE = Path(__file__).with_name("leakyrelu.cu")


class CudaLeakyReLU(KernelOp):
    def __init__(self, device, layers, buffers, block_size):
        super().__init__(device, layers, buffers, block_size)
        self.slope = np.float32(layers[0].negative_slope)
        self.forward_kernel = device.kernel(SOURCE, "leakyrelu_forward")
        self.backward_kernel = device.kernel(SOURCE, "leakyrelu_backward")

    def forward(self, n):
        t, count = self.buffers, self.buffers.x[:n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, self.slope, count)]

    def backward(self, n):
        t, count = self.buffers, self.buffers.x[:n].size
        return [] if t.dx is None else [flat(self.backward_kernel, count, self.block_size, t.x, t.dy, t.dx, self.slope, count)]
