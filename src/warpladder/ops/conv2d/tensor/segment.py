"""Conv2d on tensor cores: with the enlargement before it, and the ReLU and the pool after it, in one op."""

from __future__ import annotations

from ....device import Device
from ....nets import Conv2d, MaxPool2d, ReLU, Upsample2d
from ...engine.chain import Slice, Subgraph
from ...engine.kernels import Launches
from ...engine.segments import Operands, Segment
from ...engine.tensor_limits import FIRST, is_small
from ...update.fused import fuses, settings
from ..gemm import GemmConv2d
from ..gradients import Gradients
from .algorithm import Asked, Way
from .dispatch import WAYS
from .general.general import FORMATS


class TensorConv2d(Segment):
    """Conv2d, Conv2d + ReLU [+ MaxPool2d(2)], or Upsample2d + Conv2d [+ ReLU]: y, dx and dw on tensor cores, in the
    chain's precision.

    Which kernels compute them is chosen by shape, from `tensor_ways.WAYS`. An enlargement is folded into the weights,
    as `GemmConv2d` does and says. Where there is a ReLU, `backward` overwrites dy.
    """

    fuses_relu_backward = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        layers, buffers = subgraph.layers, operands.buffers
        conv = next(layer for layer in layers if isinstance(layer, Conv2d))
        fold = layers[0].scale_factor if isinstance(layers[0], Upsample2d) else 1
        capacity, c, h, w = buffers.x.shape
        o, high, wide = conv.out_shape((c, h * fold, w * fold))
        begins = fold == 1 and buffers.dx is None
        asked = Asked(
            device, subgraph.precision, (c, h, w), (o, high, wide), conv.kernel_size, conv.stride, conv.padding, fold,
            rectify=any(isinstance(layer, ReLU) for layer in layers), pool=isinstance(layers[-1], MaxPool2d), capacity=capacity,
            trains=buffers.dy is not None, both=buffers.dx is not None, begins=begins, slight=begins and is_small(subgraph, FIRST, products=2),
        )  # fmt: skip
        before = operands.previous.way if isinstance(operands.previous, TensorConv2d) else None
        self.way: Way = next(way for way in WAYS if way.takes(asked))(self, asked, before)
        self.factors = self.way.factors
        self.update = None if self.way.apart else operands.update

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return subgraph.precision in FORMATS and GemmConv2d.takes(subgraph)

    @classmethod
    def updates_in_place(cls, subgraph: Subgraph) -> bool:
        return fuses(subgraph)

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        return self.way.prepare()

    def forward(self, part: Slice) -> Launches:
        return self.way.forward(part.n)

    def backward(self, part: Slice) -> Launches:
        t, updated = self.buffers, settings(self.update, part)
        return self.way.backward(part.n, Gradients(t.dw, t.db, updated))
