"""A last convolution and the mean squared error: the kernel that finishes y writes the gradient of y too, and nobody
waits for the loss.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ....device import Device
from ....nets import Conv2d, Upsample2d
from ...engine.chain import Slice, Subgraph
from ...engine.kernels import Launches
from ...engine.segments import Operands
from ...mse.tiled import TiledMSE
from .dispatch import FewPixels
from .few_pixels import few_pixels
from .segment import TensorConv2d


class TensorConv2dLoss(TensorConv2d):
    """[Upsample2d +] Conv2d + MSELoss of few pixels: the loss is added up beside the backward pass."""

    cost = 4

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        given, target, shape = operands.buffers, operands.target, (len(operands.buffers.x), *subgraph.out_shape)
        assert target is not None
        y, dy = device.empty(shape, what="activations"), device.empty(shape, what="gradients")
        super().__init__(device, subgraph, replace(operands, buffers=replace(given, y=y, dy=dy)), block_size)
        #: What dy is made of, and dy, where the convolution's own kernel fills it.
        self.turned = (target.reshape(shape), dy) if isinstance(self.way, FewPixels) else None
        of_loss = replace(given, x=y, dx=None if self.turned else dy)
        self.loss = TiledMSE(device, subgraph, replace(operands, buffers=of_loss), block_size)
        self.workspace += y.nbytes + dy.nbytes + self.loss.workspace

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        layers = subgraph.layers
        (c, h, w), (o, high, wide) = subgraph.shapes[0], subgraph.out_shape
        conv = next(layer for layer in layers if isinstance(layer, Conv2d))
        fold = layers[0].scale_factor if isinstance(layers[0], Upsample2d) else 1
        window = conv.kernel_size, conv.stride, conv.padding
        few = few_pixels.fits(
            (c, h, w), (o, high, wide), window, subgraph.capacity, subgraph.precision, fold, subgraph.limits
        )
        return few and super().takes(subgraph)

    def forward(self, part: Slice) -> Launches:
        loss = self.loss.forward(part)
        if self.turned is None or not isinstance(self.way, FewPixels):
            return [*super().forward(part), *loss]
        turn = few_pixels.Turn(*self.turned, 2.0 / (part.batch * math.prod(self.subgraph.out_shape)))
        return [*self.way.forward(part.n, turn), *loss]
