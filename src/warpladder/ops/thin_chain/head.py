"""The head of a net that ends in a thin linear layer and cross-entropy: both in two or three launches."""

from __future__ import annotations

from ...device import Device
from ...nets import Linear
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from .arrays import MOST, ChainArrays
from .launches import ChainLaunches


class ThinHead(Segment):
    """Linear of at most MOST outputs and cross-entropy: the logits never leave the registers.

    dx is there after the forward pass of few samples, so that what is left of the backward pass may run concurrently
    with that of the layers below.
    """

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        x, dx, target, log = operands.buffers.x, operands.buffers.dx, operands.target, operands.log
        assert target is not None and log is not None
        arrays = ChainArrays(
            self,
            x,
            1.0,
            target,
            None,
            log,
            len(x),
            len(x),
            operands.params,
            operands.grads,
            operands.update,
            dx=dx,
            gathered=True,
        )
        self.kernels = ChainLaunches(self, arrays, len(x))

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        (linear,) = subgraph.layers
        return isinstance(linear, Linear) and linear.out_features <= MOST

    def forward(self, part: Slice) -> Launches:
        return self.kernels.forward(part)

    def backward(self, part: Slice) -> Launches:
        return self.kernels.backward(part)
