"""A net that begins with a linear layer, on a short batch: the layer takes its samples from where they are stored."""

from __future__ import annotations

from ...device import Device
from ...nets import Layer, Linear, ReLU
from ..base import Buffers
from ..kernels import Launches, Stem
from . import short


class ShortStem(Stem):
    """Linear [, ReLU]: each block looks its samples' rows up while the weights are on their way, and reads them as they are stored."""

    @classmethod
    def takes(cls, device: Device, layers: tuple[Layer, ...], buffers: Buffers) -> bool:
        kinds = [type(layer) for layer in layers]
        return kinds in ([Linear], [Linear, ReLU]) and short.fits(device, *buffers.y.shape)

    def launches(self, n: int, batch: int, offset: int) -> Launches:
        rectify = isinstance(self.layers[-1], ReLU)
        return [short.gathered_forward(self.buffers, n, rectify, self.gather, batch, offset)]
