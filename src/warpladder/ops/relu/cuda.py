"""ReLU as kernels."""

from __future__ import annotations

from pathlib import Path

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveReLU(Segment):
    """y may be x, and dx may be dy."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.forward_kernel = device.kernel(NAIVE, "relu_forward")
        self.backward_kernel = device.kernel(NAIVE, "relu_backward")

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        count = t.x[:n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, count)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        if t.dx is None:
            return []
        count = t.y[:n].size
        return [flat(self.backward_kernel, count, self.block_size, t.y, t.dy, t.dx, count)]
