"""CUDA launcher of max pooling."""

from pathlib import Path

import numpy as np

from ...device import Device
from ...nets import MaxPool2d
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveMaxPool2d(Segment):
    """Max pooling: an output's thread stores its window's argmax index; an input's adds its windows' gradients."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers, (layer,) = operands.buffers, subgraph.layers
        assert isinstance(layer, MaxPool2d)
        _, c, h, w = buffers.x.shape
        _, _, oh, ow = buffers.y.shape
        self.shape = c, h, w, oh, ow, layer.kernel_size, layer.stride
        self.inputs, self.outputs = c * h * w, c * oh * ow
        self.forward_kernel = device.kernel(NAIVE, "maxpool2d_forward")
        self.backward_kernel = device.kernel(NAIVE, "maxpool2d_backward")
        self.argmax = self.scratch(buffers.y.shape, np.int32) if buffers.dx is not None else None

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        arguments = t.x, t.y, self.argmax, self.outputs, n, *self.shape
        return [by_sample(self.forward_kernel, self.outputs, n, self.block_size, *arguments)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        if t.dx is None:
            return []
        arguments = t.dy, self.argmax, t.dx, self.inputs, n, *self.shape
        return [by_sample(self.backward_kernel, self.inputs, n, self.block_size, *arguments)]
