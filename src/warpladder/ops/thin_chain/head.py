"""Thin last linear layer and cross-entropy in two or three launches."""

from ...device import Device
from ...nets import Linear
from ..engine.chain import Subgraph
from ..engine.segments import Operands
from .arrays import MOST, ChainArrays
from .launches import ThinSegment


class ThinHead(ThinSegment):
    """Segment of a Linear with at most MOST outputs and cross-entropy: the logits stay in registers.

    With few samples the forward pass fills dx too: the other gradients may run concurrently with the previous layers.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        x, dx, target, log = operands.buffers.x, operands.buffers.dx, operands.target, operands.log
        assert target is not None and log is not None
        n, update = len(x), operands.update
        trained = operands.params, operands.grads, update
        arrays = ChainArrays(self, x, 1.0, target, None, log, n, n, *trained, dx=dx, is_gathered=True)
        self.bind(arrays, n)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        (linear,) = subgraph.layers
        return isinstance(linear, Linear) and linear.out_features <= MOST
