"""Last convolution with the mean squared error: the kernel that finishes y also writes the gradient of y."""

import math
from dataclasses import replace

from ....device import Device
from ...engine.chain import Slice, Subgraph
from ...engine.kernels import Launches
from ...engine.segments import Operands
from ...mse.tiled import TiledMSE
from .algorithm import ConvProblem
from .few_pixels.few_pixels import FewPixels, LossGradient
from .segment import TensorConv2d


class TensorConv2dLoss(TensorConv2d):
    """[Upsample2d] Conv2d + MSELoss of few pixels: the loss is summed concurrently with the backward pass."""

    cost = 4

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        outer, target, shape = operands.buffers, operands.target, (len(operands.buffers.x), *subgraph.out_shape)
        assert target is not None
        y, dy = device.empty(shape, what="activations"), device.empty(shape, what="gradients")
        super().__init__(device, subgraph, replace(operands, buffers=replace(outer, y=y, dy=dy)), block_size)
        #: Target and dy, if the convolution's own kernel fills dy.
        self.turned = (target.reshape(shape), dy) if isinstance(self.algorithm, FewPixels) else None
        of_loss = replace(outer, x=y, dx=None if self.turned else dy)
        self.loss = TiledMSE(device, subgraph, replace(operands, buffers=of_loss), block_size)
        self.workspace += y.nbytes + dy.nbytes + self.loss.workspace

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return FewPixels.fits(ConvProblem.of(subgraph, subgraph.capacity)) and super().takes(subgraph)

    def forward(self, part: Slice) -> Launches:
        loss = self.loss.forward(part)
        if self.turned is None or not isinstance(self.algorithm, FewPixels):
            return [*super().forward(part), *loss]
        gradient = LossGradient(*self.turned, 2.0 / (part.batch * math.prod(self.subgraph.out_shape)))
        return [*self.algorithm.forward(part.n, gradient), *loss]
