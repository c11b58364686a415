"""Convolutions as fp32 matrix products, with the layers fused with them."""

import numpy as np

from ...device import Array, Device
from ...nets import Conv2d, MaxPool2d, Upsample2d
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from .few_inputs.few_inputs import FewConvolution, RowsGradient
from .gradients import Gradients, IncomingGradient, WeightGradient
from .problem import FusedConv
from .products import GemmConvolution, Geometry, pack


class GemmConv2d(Segment):
    """[Upsample2d] Conv2d [ReLU [MaxPool2d(2)]] (`FusedConv`). With a ReLU `backward` overwrites dy."""

    fuses_relu_backward = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers = operands.buffers
        capacity = len(buffers.x)
        self.conv = conv = FusedConv.of(subgraph.layers, buffers.x.shape[1:])
        is_first = not conv.upsamples and buffers.dx is None
        self.argmax: Array | None = None
        self.rows: RowsGradient | None = None
        self.forward_pass: GemmConvolution | FewConvolution
        if is_first and FewConvolution.supports(conv):
            self.forward_pass = FewConvolution(self, conv)
        else:
            self.forward_pass = GemmConvolution(self, Geometry.of(conv), capacity)
            self.products["y"] = self.forward_pass.plan
        self.backward_pass: GemmConvolution | None = None
        if buffers.dy is None:
            return
        if conv.pool:
            self.argmax = self.scratch((capacity, *buffers.y.shape[1:]), np.uint8)
        if is_first and RowsGradient.supports(conv, device.limits):
            self.rows = RowsGradient(self, conv, capacity)
            return
        self.incoming = IncomingGradient(self, conv.written, capacity, conv.pool, conv.has_bias)
        self.weight_gradient = WeightGradient(self, conv, capacity)
        self.products["dw"] = self.weight_gradient.plan
        if buffers.dx is not None:
            self.backward_pass = GemmConvolution(self, Geometry.back(conv), capacity)
            self.products["dx"] = self.backward_pass.plan

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        (*_, last), first = subgraph.layers, subgraph.layers[0]
        conv = next(layer for layer in subgraph.layers if isinstance(layer, Conv2d))
        if isinstance(last, MaxPool2d) and (last.kernel_size, last.stride) != (2, 2):
            return False
        return not isinstance(first, Upsample2d) or (conv.stride == 1 and conv.padding < conv.kernel_size)

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        if isinstance(self.forward_pass, FewConvolution):
            return []
        return [pack(part.n, self.buffers.w, self.forward_pass, self.backward_pass)]

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        if isinstance(self.forward_pass, FewConvolution):
            return self.forward_pass.launches(n, t.x, t.w, t.b, t.y, self.argmax)
        return self.forward_pass.launches(n, t.x, t.b, t.y, self.conv.relu, self.argmax)

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        to = Gradients(t.dw, t.db)
        y = t.y if self.conv.relu and not self.operands.dy_is_masked else None
        if self.rows is not None:
            return self.rows.launches(n, t.x, t.dy, y, self.argmax, to)
        found, gradient, rows = self.incoming.launches(n, t.dy, y, self.argmax)
        read, other = (gradient, t.x) if self.conv.upsamples else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, self.incoming.sums, rows, to)
        if self.backward_pass is not None:
            mask = t.x if self.operands.masks_dx else None
            found += self.backward_pass.launches(n, gradient, None, t.dx, mask=mask)
        return found
