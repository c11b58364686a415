"""Conv2d on tensor cores: with the enlargement before it, and the ReLU and the pool after it, in one op."""

from __future__ import annotations

import numpy as np

from ...device import Array, Device
from ...nets import Conv2d, MaxPool2d, ReLU, Upsample2d
from ..chain import Slice, Subgraph
from ..kernels import Launches
from ..outside import FIRST, is_small
from ..segments import Operands, Segment
from .few import FewConvolution, FewGradient, WinnersGradient
from .gemm import GemmConv2d
from .gradients import IncomingGradient
from .narrow import NarrowConvolution, Shape
from .narrow import fits as fits_narrow
from .products import Geometry
from .tensor_products import FORMATS, TensorConvolution, TensorWeightGradient, pack
from .warpgroups import PackedImages, WarpgroupConvolution, fits


class TensorConv2d(Segment):
    """Conv2d, Conv2d + ReLU [+ MaxPool2d(2)], or Upsample2d + Conv2d [+ ReLU]: y, dx and dw on tensor cores, in the chain's precision.

    An enlargement is folded into the weights, as `GemmConv2d` does and says. Where there is a ReLU, `backward` overwrites dy.

    A net's first layer has no dx. If its sums have at most 32 terms, a picture's colours by 3 x 3, and its products are a small share of the net's
    (ops/outside.py), y and dw are those of few.py: multiply-adds in fp32 from registers, in every precision. There is less arithmetic than tensor cores need to
    be worth the splitting: docs/rungs/tensor.md has both times.

    On Hopper, channels and outputs that are multiples of 64 go through windows of 3 x 3, behind an enlargement by 2 as well, by warpgroup products
    (warpgroups.py), in tf32 as halves, which have as many bits. Their images are packed in bf16 by the convolution that writes them, where there is one before
    them that can; in the other precisions nobody can, since the scale of an image is known only when all of it is there.

    Few channels, at most 32 on either side, with windows up to 5 x 5, have kernels as small as their work (narrow.py), in tf32 by halves as well.
    """

    rectifies = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        layers, buffers, precision = subgraph.layers, operands.buffers, subgraph.precision
        conv = next(layer for layer in layers if isinstance(layer, Conv2d))
        fold = layers[0].scale_factor if isinstance(layers[0], Upsample2d) else 1
        self.rectify = any(isinstance(layer, ReLU) for layer in layers)
        self.pool = isinstance(layers[-1], MaxPool2d)
        capacity, c, h, w = buffers.x.shape
        o, high, wide = conv.out_shape((c, h * fold, w * fold))
        small, written = (c, h, w), (o, high, wide)
        self.folded = folded = fold > 1
        k = conv.kernel_size
        # The transposed convolution's window reaches over every pixel that an enlarged one touches.
        window = (k + fold - 1, fold, k - 1 - conv.padding) if folded else (k, conv.stride, conv.padding)
        self.winner: Array | None = None
        self.packed: Array | None = None  # y once more, for the segment behind
        self.few: FewGradient | WinnersGradient | None = None
        self.backward_pass: TensorConvolution | None = None
        self.forward_pass: TensorConvolution | NarrowConvolution | FewConvolution | WarpgroupConvolution
        trains, narrow = buffers.dy is not None, Shape(small, written, k, conv.padding, self.pool)
        first = not folded and buffers.dx is None and is_small(subgraph, FIRST, products=2)
        if first and FewConvolution.takes(small, k, conv.stride):
            self.forward_pass = FewConvolution(self, small, written, k, conv.padding)
        elif fits(device, small, written, (k, conv.stride, conv.padding), capacity, precision, fold):
            self.forward_pass = WarpgroupConvolution(self, small, written, capacity, precision, trains, buffers.dx is not None)
            self.factors = "fp16" if precision == "tf32" else None
            self.forward_pass.images.given = isinstance(operands.before, TensorConv2d) and operands.before.feed(self.forward_pass.images)
        elif not folded and fits_narrow(narrow, conv.stride, precision, device.limits):
            self.forward_pass = NarrowConvolution(self, narrow, capacity, precision, trains, buffers.dx is not None)
            self.factors = "fp16" if precision == "tf32" else None
        else:
            forward = Geometry(small, written, *window, transposed=folded, fold=fold, pool=self.pool)
            self.forward_pass = TensorConvolution(self, forward, capacity, precision)
        if not trains:
            return
        if self.pool:
            self.winner = self.scratch((capacity, *buffers.y.shape[1:]), np.uint8)
        if first and self.pool and WinnersGradient.takes(small, *window, device.limits):
            self.few = WinnersGradient(self, small, written, k, conv.padding, capacity)
        elif first and not self.pool and FewGradient.takes(small, k):
            self.few = FewGradient(self, small, written, *window, capacity)
        if self.few is not None:
            return
        self.spreads = self.pool and not isinstance(self.forward_pass, NarrowConvolution)
        self.incoming = IncomingGradient(self, written, capacity, self.spreads)
        if isinstance(self.forward_pass, WarpgroupConvolution | NarrowConvolution):
            return
        read, other = (written, small) if folded else (small, written)
        self.weight_gradient = TensorWeightGradient(self, read, other, *window, fold, capacity, precision)
        if buffers.dx is not None:
            transpose = Geometry(written, small, *window, transposed=not folded, fold=fold, swapped=True)
            self.backward_pass = TensorConvolution(self, transpose, capacity, precision)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return subgraph.precision in FORMATS and GemmConv2d.takes(subgraph)

    def feed(self, images: PackedImages) -> bool:
        """Whether y is packed for the segment behind from now on; what is kept of that one is an array."""
        if images.scaled or not isinstance(self.forward_pass, FewConvolution | WarpgroupConvolution):
            return False
        self.packed = images.halves.high
        return True

    def prepare(self, part: Slice) -> Launches:
        if isinstance(self.forward_pass, FewConvolution):
            return []
        if isinstance(self.forward_pass, WarpgroupConvolution):
            return [self.forward_pass.weights.pack(self.buffers.w)]
        if isinstance(self.forward_pass, NarrowConvolution):
            return [self.forward_pass.pack(self.buffers.w)]
        return [pack(self.buffers.w, self.forward_pass, self.backward_pass)]

    def forward(self, part: Slice) -> Launches:
        t = self.buffers
        if isinstance(self.forward_pass, FewConvolution):
            return self.forward_pass.launches(part.n, t.x, t.w, t.b, t.y, self.rectify, self.pool, self.winner, self.packed)
        if isinstance(self.forward_pass, WarpgroupConvolution):
            after = "POOL" if self.pool else "RECTIFY" if self.rectify else "PLAIN"
            return self.forward_pass.forward(part.n, t.x, t.b, t.y, after, self.winner, self.packed)
        if isinstance(self.forward_pass, NarrowConvolution):
            return self.forward_pass.forward(part.n, t.x, t.b, t.y, self.rectify, self.winner)
        return self.forward_pass.launches(part.n, t.x, t.b, t.y, self.rectify, self.winner)

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        y = t.y if self.rectify and not self.operands.dy_rectified else None
        if isinstance(self.few, FewGradient):
            return self.few.launches(n, t.x, t.dy, y, t.dw, t.db)
        if isinstance(self.few, WinnersGradient):
            assert self.winner is not None
            return self.few.launches(n, t.x, t.dy, self.winner, t.dw, t.db)
        below = t.x if self.operands.x_rectified else None
        if isinstance(self.forward_pass, NarrowConvolution):  # which sums dy itself, and goes through a pool itself
            found = self.incoming.launches(n, t.dy, y, None)[0] if y is not None and not self.pool else []
            return found + self.forward_pass.backward(n, t.x, t.dy, self.winner, t.dw, t.db, t.dx, below)
        found, gradient, slabs = self.incoming.launches(n, t.dy, y, self.winner)
        if isinstance(self.forward_pass, WarpgroupConvolution):
            return found + self.forward_pass.backward(n, gradient, t.dw, self.incoming.sums, slabs, t.db, t.dx, below)
        read, other = (gradient, t.x) if self.folded else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, t.dw, self.incoming.sums, slabs, t.db)
        if self.backward_pass is not None:
            found += self.backward_pass.launches(n, gradient, None, t.dx, below=below)
        return found
