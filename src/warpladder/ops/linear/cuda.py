"""CUDA launchers of the linear layer on the naive rung."""

from pathlib import Path

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands, Segment
from ..sums.cuda import ColumnSums, SampleSums

NAIVE = Path(__file__).with_name("naive.cu")
#: Outputs that a block covers in the forward pass; its other axis is samples (naive.cu has the reason).
ACROSS = 8
#: Fewest samples in a partial of the weight gradient.
LEAST = 64


class NaiveLinear(Segment):
    """Linear layer by one thread for each number of y, dx, dw and db."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers = operands.buffers
        (capacity, self.inputs), self.outputs = buffers.x.shape, buffers.y.shape[1]
        self.forward_kernel = device.kernel(NAIVE, "linear_forward")
        if buffers.dy is not None:
            self.input_gradient = device.kernel(NAIVE, "linear_input_gradient")
            self.weight_gradient = device.kernel(NAIVE, "linear_weight_gradient")
            self.weight_sums = SampleSums(device, capacity, self.inputs * self.outputs, LEAST, block_size)
            self.bias_sums = ColumnSums(device, capacity, self.outputs, block_size)
            self.workspace += self.weight_sums.workspace + self.bias_sums.workspace

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        block = ACROSS, self.block_size // ACROSS
        grid = ceil_div(self.outputs, block[0]) * ceil_div(n, block[1])
        return [self.forward_kernel.bind(grid, block, t.x, t.w, t.b, t.y, n, self.inputs, self.outputs)]

    def backward(self, part: Slice) -> Launches:
        t, n, size = self.buffers, part.n, (self.inputs, self.outputs)
        found = self.weight_sums.launches(self.weight_gradient, n, t.dw, (t.dy, t.x), size)
        found += self.bias_sums.launches(t.dy, n, t.db)
        if t.dx is not None:
            found.append(by_sample(self.input_gradient, self.inputs, n, self.block_size, t.dy, t.w, t.dx, n, *size))
        return found
