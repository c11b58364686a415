"""Convolutions as products of matrices: with the enlargement before them, and the ReLU and the pool after them, in one op."""

from __future__ import annotations

import numpy as np

from ...device import Array, Device
from ...nets import Conv2d, Layer, MaxPool2d, ReLU, Shape, Upsample2d
from ..base import Buffers
from ..kernels import KernelOp, Launches
from .gradients import IncomingGradient, WeightGradient, WinnersGradient
from .products import Convolution, Geometry, pack


class GemmConv2d(KernelOp):
    """Conv2d, Conv2d + ReLU [+ MaxPool2d(2)], or Upsample2d + Conv2d [+ ReLU].

    An enlargement and a convolution become one transposed convolution of the small image, with folded weights: the
    pixels of one phase of the large image all see the same numbers of the small one. 3 x 3 after an enlargement by 2 is
    four convolutions of 2 x 2, 4/9 of the FLOPs, in all three directions.

    Where there is a ReLU, `backward` overwrites dy.
    """

    def __init__(self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, block_size: int) -> None:
        super().__init__(device, layers, buffers, block_size)
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
        self.forward_pass = Convolution(self, Geometry(small, written, *window, transposed=folded, fold=fold), capacity)
        self.winner: Array | None = None
        self.backward_pass: Convolution | None = None
        if buffers.dy is None:
            return
        if self.pool:
            self.winner = self.scratch((capacity, *buffers.y.shape[1:]), np.uint8)
        self.winners = None
        if self.pool and buffers.dx is None and WinnersGradient.takes(small, *window, device.limits):
            self.winners = WinnersGradient(self, small, written, k, conv.padding, capacity)
            return
        self.incoming = IncomingGradient(self, written, capacity, self.pool)
        self.weight_gradient = WeightGradient(self, written if folded else small, small if folded else written, *window, fold, capacity)
        if buffers.dx is not None:
            self.backward_pass = Convolution(
                self, Geometry(written, small, *window, transposed=not folded, fold=fold, swapped=True), capacity
            )

    @classmethod
    def takes(cls, layers: tuple[Layer, ...], in_shape: Shape) -> bool:
        for layer in layers:
            if isinstance(layer, MaxPool2d) and (layer.kernel_size, layer.stride) != (2, 2):
                return False
            if isinstance(layer, Conv2d) and isinstance(layers[0], Upsample2d) and (layer.stride > 1 or layer.padding >= layer.kernel_size):
                return False
        return True

    def forward(self, n: int) -> Launches:
        t = self.buffers
        packed = pack(n, t.w, self.forward_pass, self.backward_pass)
        return [packed, *self.forward_pass.launches(n, t.x, t.b, t.y, self.rectify, self.pool, self.winner)]

    def backward(self, n: int) -> Launches:
        t = self.buffers
        if self.winners is not None:
            assert self.winner is not None
            return self.winners.launches(n, t.x, t.dy, self.winner, t.dw, t.db)
        found, gradient, slabs = self.incoming.launches(n, t.dy, t.y if self.rectify else None, self.winner)
        read, other = (gradient, t.x) if self.folded else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, t.dw, self.incoming.sums, slabs, t.db)
        if self.backward_pass is not None:
            found += self.backward_pass.launches(n, gradient, None, t.dx)
        return found
