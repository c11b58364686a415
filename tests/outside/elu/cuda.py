"""ELU as kernels."""

from pathlib import Path

import numpy as np

from warpladder.ops.engine.grids import flat
from warpladder.ops.engine.segments import Segment

SOURCE = Path(__file__).with_name("elu.cu")


class CudaELU(Segment):
    def __init__(self, device, subgraph, operands, block_size):
        super().__init__(device, subgraph, operands, block_size)
        self.alpha = np.float32(subgraph.layers[0].alpha)
        self.forward_kernel = device.kernel(SOURCE, "elu_forward")
        self.backward_kernel = device.kernel(SOURCE, "elu_backward")

    def forward(self, part):
        t, count = self.buffers, self.buffers.x[: part.n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, self.alpha, count)]

    def backward(self, part):
        t, count = self.buffers, self.buffers.x[: part.n].size
        return (
            []
            if t.dx is None
            else [flat(self.backward_kernel, count, self.block_size, t.x, t.dy, t.dx, self.alpha, count)]
        )


OP = CudaELU
