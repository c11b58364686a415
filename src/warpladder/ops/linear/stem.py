"""First linear layer of a net on a short batch, which reads its samples from the stored data set."""

from ...device import Device
from ...nets import Linear, ReLU
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from . import short
from .gemm import GemmLinear


class ShortStem(Segment):
    """Segment Gather, Linear [, ReLU]: each block finds the rows of its samples while the weights are loaded."""

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.fused_relu = isinstance(self.layers[-1], ReLU)
        self.gradients = GemmLinear(device, subgraph.part(1, len(subgraph.nodes)), operands, block_size)
        self.products, self.workspace = self.gradients.products, self.gradients.workspace

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        linear = subgraph.layers[0]
        return isinstance(linear, Linear) and short.fits(subgraph.limits, subgraph.capacity, linear.out_features)

    def forward(self, part: Slice) -> Launches:
        samples, target, batch = self.operands.samples, self.operands.target, self.subgraph.batch
        assert samples is not None
        arguments = part.n, self.fused_relu, samples, target, batch, part.offset
        return [short.gathered_forward(self.buffers, *arguments)]

    def backward(self, part: Slice) -> Launches:
        return self.gradients.backward(part)
