"""The head of a net that ends in a thin linear layer and cross-entropy: both in two or three launches."""

from __future__ import annotations

from ...device import Array, Device
from ...nets import CrossEntropyLoss, Layer, Linear, Loss
from ..base import Buffers
from ..kernels import Head, Launches, Log
from .arrays import MOST, ChainArrays
from .launches import ChainLaunches


class ThinHead(Head):
    """Linear of at most MOST outputs and cross-entropy: the logits never leave the registers."""

    @classmethod
    def takes(cls, layer: Layer, loss: Loss) -> bool:
        return isinstance(layer, Linear) and layer.out_features <= MOST and isinstance(loss, CrossEntropyLoss)

    def __init__(self, device: Device, buffers: Buffers, target: Array, log: Log, block_size: int) -> None:
        super().__init__(device, buffers, target, log, block_size)
        t = buffers
        arrays = ChainArrays(self, t.x, 1.0, target, None, log, len(t.x), len(t.x), [t.w, t.b], [t.dw, t.db], dx=t.dx)
        self.kernels = ChainLaunches(self, arrays, len(t.x))

    def forward(self, n: int, batch: int) -> Launches:
        return self.kernels.forward(n, batch, 0)

    def backward(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        return self.kernels.backward(n, batch, 0, first, last)
