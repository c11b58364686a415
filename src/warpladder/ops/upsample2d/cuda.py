"""CUDA launcher of nearest-neighbour upsampling."""

from pathlib import Path

from ...device import Device
from ...nets import Upsample2d
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveUpsample2d(Segment):
    """Upsampling by one thread for each number of y and dx."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        (layer,) = subgraph.layers
        assert isinstance(layer, Upsample2d)
        self.scale = layer.scale_factor
        _, self.c, self.h, self.w = operands.buffers.x.shape
        self.size = self.c * self.h * self.w
        self.forward_kernel = device.kernel(NAIVE, "upsample2d_forward")
        self.backward_kernel = device.kernel(NAIVE, "upsample2d_backward")

    def forward(self, part: Slice) -> Launches:
        t, n, outputs = self.buffers, part.n, self.size * self.scale**2
        arguments = t.x, t.y, outputs, n, self.c, self.h, self.w, self.scale
        return [by_sample(self.forward_kernel, outputs, n, self.block_size, *arguments)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        if t.dx is None:
            return []
        arguments = t.dy, t.dx, self.size, n, self.h, self.w, self.scale
        return [by_sample(self.backward_kernel, self.size, n, self.block_size, *arguments)]
