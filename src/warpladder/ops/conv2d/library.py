"""Cross-correlation by cuDNN, with the ReLU after it."""

import math
from pathlib import Path

from ...device import Device
from ...device.gpu.cudnn import CudnnConvolution, Window, cudnn
from ...device.gpu.library import LibraryPlan
from ...nets import Conv2d
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample, flat
from ..engine.kernels import Launches
from ..engine.library_op import PlannedOp
from ..engine.segments import Operands
from ..relu.cuda import NAIVE as RELU
from .cuda import ConvBiasGradient

BIAS = Path(__file__).with_name("bias.cu")


class LibraryConv2d(PlannedOp):
    """Convolution by three products of cuDNN; the project's kernels add the bias, apply ReLU and sum db.

    The ReLU's mask is applied to dy in place.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers, self.has_relu = operands.buffers, len(subgraph.layers) > 1
        self.bias = device.kernel(BIAS, "conv2d_bias")
        if buffers.dy is not None:
            self.relu = device.kernel(RELU, "relu_backward")
            self.bias_gradient = ConvBiasGradient(device, buffers.dy.shape, block_size)
            self.workspace += self.bias_gradient.workspace

    def plan(self, name: str, n: int, workspace: int) -> LibraryPlan:
        layer = self.layers[0]
        assert isinstance(layer, Conv2d)
        t, library, window = self.buffers, cudnn(self.device), Window(layer.stride, layer.padding)
        if name == "y":
            return CudnnConvolution(library, name, window.forward, [t.x[:n], t.w], t.y[:n], workspace)
        if name == "dw":
            return CudnnConvolution(library, name, window.weight_gradient, [t.x[:n], t.dy[:n]], t.dw, workspace)
        return CudnnConvolution(library, name, window.input_gradient, [t.dy[:n], t.w], t.dx[:n], workspace)

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        size, pixels = math.prod(t.y.shape[1:]), math.prod(t.y.shape[2:])
        arguments = t.y, t.b, size, n, pixels, self.has_relu
        return [self.call("y", n), by_sample(self.bias, size, n, self.block_size, *arguments)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        found: Launches = []
        if self.has_relu:
            count = t.dy[:n].size
            found.append(flat(self.relu, count, self.block_size, t.y, t.dy, t.dy, count))
        found += [self.call("dw", n), *self.bias_gradient.launches(t.dy, n, t.db)]
        return found if t.dx is None else [*found, self.call("dx", n)]
