"""CUDA launcher of average pooling."""

from pathlib import Path

import numpy as np

from ...device import Device
from ...nets import AdaptiveAvgPool2d, AvgPool2d
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveAvgPool2d(Segment):
    """Average pooling: one thread for each output sums its window, one for each input sums its windows' gradients."""

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers, (layer,) = operands.buffers, subgraph.layers
        assert isinstance(layer, AvgPool2d | AdaptiveAvgPool2d)
        (_, c, h, w), (_, _, oh, ow) = buffers.x.shape, buffers.y.shape
        rows, columns, stride = layer.window((c, h, w))
        self.shape = c, h, w, oh, ow, rows, columns, stride
        self.share = np.float32(1 / (rows * columns))
        self.inputs, self.outputs = c * h * w, c * oh * ow
        self.forward_kernel = device.kernel(NAIVE, "avgpool2d_forward")
        self.backward_kernel = device.kernel(NAIVE, "avgpool2d_backward")

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        arguments = t.x, t.y, self.share, self.outputs, n, *self.shape
        return [by_sample(self.forward_kernel, self.outputs, n, self.block_size, *arguments)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        if t.dx is None:
            return []
        arguments = t.dy, t.dx, self.share, self.inputs, n, *self.shape
        return [by_sample(self.backward_kernel, self.inputs, n, self.block_size, *arguments)]
