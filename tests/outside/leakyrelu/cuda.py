"""LeakyReLU as kernels."""

from pathlib import Path

import numpy as np

from warpladder.ops.engine.grids import flat
from warpladder.ops.engine.segments import Segment

SOURCE = Path(__file__).with_name("leakyrelu.cu")


class CudaLeakyReLU(Segment):
    def __init__(self, device, subgraph, operands, block_size):
        super().__init__(device, subgraph, operands, block_size)
        self.slope = np.float32(subgraph.layers[0].negative_slope)
        self.forward_kernel = device.kernel(SOURCE, "leakyrelu_forward")
        self.backward_kernel = device.kernel(SOURCE, "leakyrelu_backward")

    def forward(self, part):
        t, count = self.buffers, self.buffers.x[: part.n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, self.slope, count)]

    def backward(self, part):
        t, count = self.buffers, self.buffers.x[: part.n].size
        return (
            []
            if t.dx is None
            else [flat(self.backward_kernel, count, self.block_size, t.x, t.dy, t.dx, self.slope, count)]
        )


OP = CudaLeakyReLU
