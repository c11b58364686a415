"""CUDA launchers of cross-correlation on the naive rung."""

from pathlib import Path

from ...device import Array, Device
from ...nets import Conv2d
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample
from ..engine.kernels import Launches, OnDevice
from ..engine.segments import Operands, Segment
from ..sums.cuda import ColumnSums, RowSums, SampleSums

NAIVE = Path(__file__).with_name("naive.cu")


class ConvBiasGradient(OnDevice):
    """Bias gradient db[f] = sum of dy[:, f], for dy (capacity, o, oh, ow): over ow, then samples, then oh."""

    def __init__(self, device: Device, shape: tuple[int, ...], block_size: int) -> None:
        super().__init__(device, block_size)
        capacity, self.o, self.oh, self.ow = shape
        lines = self.o * self.oh
        self.line_sums = RowSums(device, block_size)
        self.of_samples = self.scratch((capacity, lines))
        self.sample_sums = ColumnSums(device, capacity, lines, block_size)
        self.of_batch = self.scratch((lines,))
        self.workspace += self.sample_sums.workspace

    def launches(self, dy: Array, n: int, db: Array) -> Launches:
        """Launches that fill db (o,) from the first n samples of dy."""
        lines = self.o * self.oh
        found: Launches = [self.line_sums.launch(dy, n * lines, self.ow, self.of_samples)]
        sums = self.of_samples
        if n > 1:
            found += self.sample_sums.launches(sums, n, self.of_batch)
            sums = self.of_batch
        return [*found, self.line_sums.launch(sums, self.o, self.oh, db)]


class NaiveConv2d(Segment):
    """Convolution by one thread for each number of y, dx, dw and db."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers, (layer,) = operands.buffers, subgraph.layers
        assert isinstance(layer, Conv2d)
        capacity, self.c, self.h, self.w = buffers.x.shape
        _, self.o, self.oh, self.ow = buffers.y.shape
        self.window = layer.kernel_size, layer.stride, layer.padding
        self.forward_kernel = device.kernel(NAIVE, "conv2d_forward")
        if buffers.dy is not None:
            self.input_gradient = device.kernel(NAIVE, "conv2d_input_gradient")
            self.weight_gradient = device.kernel(NAIVE, "conv2d_weight_gradient")
            self.weight_sums = SampleSums(device, capacity, self.o * self.c * layer.kernel_size**2, 1, block_size)
            self.bias_gradient = ConvBiasGradient(device, buffers.y.shape, block_size)
            self.workspace += self.weight_sums.workspace + self.bias_gradient.workspace

    def forward(self, part: Slice) -> Launches:
        t, n, size = self.buffers, part.n, self.o * self.oh * self.ow
        arguments = t.x, t.w, t.b, t.y, size, n, self.c, self.h, self.w, self.oh, self.ow, *self.window
        return [by_sample(self.forward_kernel, size, n, self.block_size, *arguments)]

    def backward(self, part: Slice) -> Launches:
        t, n, size = self.buffers, part.n, self.c * self.h * self.w
        shape = self.c, self.h, self.w, self.o, self.oh, self.ow
        found = self.weight_sums.launches(self.weight_gradient, n, t.dw, (t.dy, t.x), (*shape, *self.window))
        found += self.bias_gradient.launches(t.dy, n, t.db)
        if t.dx is not None:
            arguments = t.dy, t.w, t.dx, size, n, *shape, *self.window
            found.append(by_sample(self.input_gradient, size, n, self.block_size, *arguments))
        return found
