"""Nets of one or two thin linear layers with cross-entropy: a whole step in two or three launches."""

from __future__ import annotations

from collections.abc import Mapping

from ...config import TrainConfig
from ...device import Array, Device
from ...nets import CrossEntropyLoss, Flatten, Layer, Linear, Net, ReLU
from ...optimizers import SGD
from ..kernels import KernelUpdate, Launches, Log, WholeStep
from .arrays import MOST, ChainArrays
from .launches import ChainLaunches


class ThinChain(WholeStep):
    """Linear, or Linear + ReLU + Linear, each of at most MOST outputs, then cross-entropy.

    Such a net's step is bound by reading its samples. They are read twice, as they are stored: forward, and for the first
    layer's gradient. Everything else that a sample needs is done at once, while its numbers are in registers.
    """

    @classmethod
    def takes(cls, net: Net) -> bool:
        layers = _computing(net)
        form = [type(layer) for layer in layers]
        wide = max((layer.out_features for layer in layers if isinstance(layer, Linear)), default=0)
        return form in ([Linear], [Linear, ReLU, Linear]) and wide <= MOST and isinstance(net.loss, CrossEntropyLoss)

    @classmethod
    def updates(cls, config: TrainConfig) -> bool:
        """SGD at a constant rate, whose settings are arguments of the kernels; for others a launch over all parameters follows."""
        return isinstance(config.optimizer, SGD) and config.steady

    def __init__(
        self, device: Device, net: Net, source: Array, scale: float, labels: Array | None, order: Array, log: Log, whole: int, capacity: int,
        w: Mapping[str, Array], dw: Mapping[str, Array], update: KernelUpdate | None, block_size: int,
    ) -> None:  # fmt: skip
        super().__init__(device, net, source, scale, labels, order, log, whole, capacity, w, dw, update, block_size)
        assert labels is not None
        where = [index for index, layer in enumerate(net.layers) if isinstance(layer, Linear)]
        weights, gradients = ([views[f"{index}.{part}"] for index in where for part in ("weight", "bias")] for views in (w, dw))
        arrays = ChainArrays(self, source, scale, labels, order, log, whole, capacity, weights, gradients, update)
        self.ordered = arrays.order is not None
        self.kernels = ChainLaunches(self, arrays, capacity)
        packed = self.kernels.many.packed if self.kernels.many is not None else None
        self.once = packed.packing if packed is not None else ()

    def launches(self, n: int, batch: int, offset: int, first: bool, last: bool) -> Launches:
        return [*self.kernels.forward(n, batch, offset), *self.kernels.backward(n, batch, offset, first, last)]


def _computing(net: Net) -> list[Layer]:
    return [layer for layer in net.layers if not isinstance(layer, Flatten)]
