"""CUDA launcher of the activations."""

from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from . import scalar

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveActivation(Segment):
    """Activation by one thread for each number: y = f(x), dx = f'(x) dy."""

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        (layer,), buffers = subgraph.layers, operands.buffers
        function, self.slope = scalar.number(layer), np.float32(scalar.slope(layer))
        self.saved = buffers.y if layer.reads_output else buffers.x
        self.forward_kernel = device.kernel(NAIVE, f"activation_forward<{function}>")
        self.backward_kernel = device.kernel(NAIVE, f"activation_backward<{function}>")

    def forward(self, part: Slice) -> Launches:
        t, count = self.buffers, self.buffers.x[: part.n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, self.slope, count)]

    def backward(self, part: Slice) -> Launches:
        t, count = self.buffers, self.buffers.x[: part.n].size
        if t.dx is None:
            return []
        return [flat(self.backward_kernel, count, self.block_size, self.saved, t.dy, t.dx, self.slope, count)]
