"""Convolutions as products of matrices: with the enlargement before them, and the ReLU and the pool after them, in one
op.
"""

from __future__ import annotations

import numpy as np

from ...device import Array, Device
from ...nets import Conv2d, MaxPool2d, ReLU, Upsample2d
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from .few_inputs.few_inputs import FewConvolution, FewGradient, WinnersGradient
from .gradients import Gradients, IncomingGradient, WeightGradient
from .products import Convolution, Geometry, pack


class GemmConv2d(Segment):
    """Conv2d, Conv2d + ReLU [+ MaxPool2d(2)], or Upsample2d + Conv2d [+ ReLU].

    An enlargement and a convolution become one transposed convolution of the small image, with folded weights: the
    pixels of one phase of the large image all see the same numbers of the small one. 3 x 3 after an enlargement by 2 is
    four convolutions of 2 x 2, 4/9 of the FLOPs, in all three directions.

    Where there is a ReLU, `backward` overwrites dy.
    """

    fuses_relu_backward = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        layers, buffers = subgraph.layers, operands.buffers
        conv = next(layer for layer in layers if isinstance(layer, Conv2d))
        fold = layers[0].scale_factor if isinstance(layers[0], Upsample2d) else 1
        self.rectify = any(isinstance(layer, ReLU) for layer in layers)
        self.pool = isinstance(layers[-1], MaxPool2d)
        capacity, c, h, w = buffers.x.shape
        small, large = (c, h, w), (c, h * fold, w * fold)
        o, high, wide = conv.out_shape(large)
        written = o, high, wide
        self.folded = folded = fold > 1
        k = conv.kernel_size
        # The transposed convolution's window reaches over every pixel that an enlarged one touches.
        window = (k + fold - 1, fold, k - 1 - conv.padding) if folded else (k, conv.stride, conv.padding)
        self.winner: Array | None = None
        self.few: FewGradient | WinnersGradient | None = None
        self.forward_pass: Convolution | FewConvolution
        if not folded and buffers.dx is None and FewConvolution.takes(small, k, conv.stride):
            self.forward_pass = FewConvolution(self, small, written, k, conv.padding)
        else:
            geometry = Geometry(small, written, *window, transposed=folded, fold=fold, pool=self.pool)
            self.forward_pass = Convolution(self, geometry, capacity)
            self.products["y"] = self.forward_pass.plan
        self.backward_pass: Convolution | None = None
        if buffers.dy is None:
            return
        if self.pool:
            self.winner = self.scratch((capacity, *buffers.y.shape[1:]), np.uint8)
        if not folded and buffers.dx is None:
            if self.pool and WinnersGradient.takes(small, *window, device.limits):
                self.few = WinnersGradient(self, small, written, k, conv.padding, capacity)
            elif not self.pool and FewGradient.takes(small, k):
                self.few = FewGradient(self, small, written, *window, capacity)
            if self.few is not None:
                return
        self.incoming = IncomingGradient(self, written, capacity, self.pool)
        self.weight_gradient = WeightGradient(
            self, written if folded else small, small if folded else written, *window, fold, capacity
        )
        self.products["dw"] = self.weight_gradient.plan
        if buffers.dx is not None:
            transpose = Geometry(written, small, *window, transposed=not folded, fold=fold, swapped=True)
            self.backward_pass = Convolution(self, transpose, capacity)
            self.products["dx"] = self.backward_pass.plan

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        layers = subgraph.layers
        for layer in layers:
            if isinstance(layer, MaxPool2d) and (layer.kernel_size, layer.stride) != (2, 2):
                return False
            if (
                isinstance(layer, Conv2d)
                and isinstance(layers[0], Upsample2d)
                and (layer.stride > 1 or layer.padding >= layer.kernel_size)
            ):
                return False
        return True

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        if isinstance(self.forward_pass, FewConvolution):
            return []
        return [pack(part.n, self.buffers.w, self.forward_pass, self.backward_pass)]

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        if isinstance(self.forward_pass, FewConvolution):
            return self.forward_pass.launches(n, t.x, t.w, t.b, t.y, self.rectify, self.pool, self.winner)
        return self.forward_pass.launches(n, t.x, t.b, t.y, self.rectify, self.winner)

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        to = Gradients(t.dw, t.db)
        y = t.y if self.rectify and not self.operands.dy_is_masked else None
        if isinstance(self.few, FewGradient):
            return self.few.launches(n, t.x, t.dy, y, to)
        if isinstance(self.few, WinnersGradient):
            assert self.winner is not None
            return self.few.launches(n, t.x, t.dy, self.winner, to)
        found, gradient, slabs = self.incoming.launches(n, t.dy, y, self.winner)
        read, other = (gradient, t.x) if self.folded else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, self.incoming.sums, slabs, to)
        if self.backward_pass is not None:
            found += self.backward_pass.launches(n, gradient, None, t.dx, below=t.x if self.operands.masks_dx else None)
        return found
