"""CUDA launcher of ReLU."""

from pathlib import Path

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveReLU(Segment):
    """ReLU by one thread for each number. y may be x, and dx may be dy."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.forward_kernel = device.kernel(NAIVE, "relu_forward")
        self.backward_kernel = device.kernel(NAIVE, "relu_backward")

    def forward(self, part: Slice) -> Launches:
        t, count = self.buffers, self.buffers.x[: part.n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, count)]

    def backward(self, part: Slice) -> Launches:
        t, count = self.buffers, self.buffers.y[: part.n].size
        return [] if t.dx is None else [flat(self.backward_kernel, count, self.block_size, t.y, t.dy, t.dx, count)]
