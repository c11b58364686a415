"""Conv2d on tensor cores, with the layers fused with it, as one segment."""

from ....device import Device
from ...engine.chain import Slice, Subgraph
from ...engine.kernels import Launches
from ...engine.segments import Operands
from ...update.fused import UpdatesInPlace, settings
from ..gemm import GemmConv2d
from ..gradients import Gradients
from .algorithm import ConvAlgorithm, ConvProblem
from .dispatch import choose
from .formats import FORMATS


class TensorConv2d(UpdatesInPlace):
    """[Upsample2d] Conv2d [ReLU [MaxPool2d(2)]] (`FusedConv`): y, dx and dw on tensor cores, in the chain's precision.

    `dispatch.choose` picks the algorithm by shape. With a ReLU `backward` overwrites dy.
    """

    fuses_relu_backward = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers = operands.buffers
        trains, has_dx = buffers.dy is not None, buffers.dx is not None
        problem = ConvProblem.of(subgraph, len(buffers.x), device, trains, has_dx)
        before = operands.previous.algorithm if isinstance(operands.previous, TensorConv2d) else None
        algorithm = choose(problem)
        assert algorithm is not None
        self.algorithm: ConvAlgorithm = algorithm(self, problem, before)
        self.factors = self.algorithm.factors
        self.update = None if self.algorithm.updates_separately else operands.update

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        if subgraph.precision not in FORMATS or not GemmConv2d.takes(subgraph):
            return False
        return choose(ConvProblem.of(subgraph, subgraph.capacity)) is not None

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        return self.algorithm.prepare()

    def forward(self, part: Slice) -> Launches:
        return self.algorithm.forward(part.n)

    def backward(self, part: Slice) -> Launches:
        t, updated = self.buffers, settings(self.update, part)
        return self.algorithm.backward(part.n, Gradients(t.dw, t.db, updated))
