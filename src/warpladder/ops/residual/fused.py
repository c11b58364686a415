"""CUDA launcher of the end of a residual connection with the layers after it."""

from itertools import product
from pathlib import Path

from ...device import Device
from ...nets import Branch, Layer, Sum
from ..activation.fused import ENDS, IDENTITY, RELU, function
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands, Segment

FUSED = Path(__file__).with_name("fused.cu")


class FusedSum(Segment):
    """Sum [activation] [Branch]: y = f(x + skip), in one launch each way; `backward` overwrites dy with the gradient of
    both summands.
    """

    cost = 2
    masks_dy = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.function, self.slope = function(subgraph.layers)
        self.branches = isinstance(subgraph.layers[-1], Branch)

    def forward(self, part: Slice) -> Launches:
        t, count = self.buffers, self.buffers.x[: part.n].size
        kernel = self.device.kernel(FUSED, f"sum_forward<{self.function}>")
        return [flat(kernel, ceil_div(count, 4), self.block_size, t.x, t.skip, t.y, self.slope, count)]

    def backward(self, part: Slice) -> Launches:
        t, count = self.buffers, self.buffers.x[: part.n].size
        dskip = t.dskip if self.branches else None
        dx = None if t.dx is None or t.dx.address == t.dy.address else t.dx
        if self.function == IDENTITY and dskip is None and dx is None:
            return []
        saved, skip = (t.y, None) if self.function == RELU else (t.x, t.skip)
        kernel = self.device.kernel(FUSED, f"sum_backward<{self.function}>")
        arguments = saved, skip, t.dy, dskip, dx, self.slope, count
        return [flat(kernel, ceil_div(count, 4), self.block_size, *arguments)]


#: Runs of layers that the segment computes.
CHAINS: list[tuple[type[Layer], ...]] = [
    (Sum, *after, *(Branch,) * branches) for after, branches in product(ENDS, (False, True)) if after or branches
]
