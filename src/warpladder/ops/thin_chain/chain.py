"""Nets of one or two thin linear layers with cross-entropy: a step in two or three launches."""

from ...device import Device
from ...nets import Linear
from ..engine.chain import Subgraph
from ..engine.segments import Operands
from ..update.fused import UpdatesInPlace
from .arrays import MOST, ChainArrays
from .launches import ThinSegment


class ThinChain(UpdatesInPlace, ThinSegment):
    """Segment Gather, Linear or Linear + ReLU + Linear, each of at most MOST outputs, then cross-entropy.

    The reading of samples bounds such a step. It reads them twice, as stored: forward, and for the first layer's
    gradient. All else is computed while a sample's numbers are in registers.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        samples, log = operands.samples, operands.log
        assert samples is not None and samples.labels is not None and log is not None
        batch, capacity = subgraph.batch, subgraph.capacity
        arrays = ChainArrays(
            self, samples.stored, samples.scale, samples.labels, samples.order, log, batch, capacity,
            operands.params, operands.grads, operands.update
        )  # fmt: skip
        self.reads_order = arrays.order is not None
        self.bind(arrays, capacity)
        packed = self.many.packed if self.many is not None else None
        self.setup = tuple(packed.packing) if packed is not None else ()

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return all(layer.out_features <= MOST for layer in subgraph.layers if isinstance(layer, Linear))
