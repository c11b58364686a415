"""Convolution as a matrix product on unrolled patches (im2col)."""

from __future__ import annotations

from ...nets import Conv2d, Layer
from ..base import Array, Buffers, Op, module_of

BLOCK_BYTES = 1 << 20  # patches unrolled at a time: they should stay in the cache between the copy and the product


class ArrayConv2d(Op):
    """Samples go through in blocks; a block's patches are one array (block, c k k, oh ow).

    y = W patches + b; dW = the sum over samples of dy patches'; dpatches = W' dy, folded back
    onto dx by k * k shifted additions. Here x is (n, c, h, w), y (n, o, oh, ow), W (o, c k k).
    """

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        assert isinstance(layer, Conv2d)
        self.k, self.s, self.p = layer.kernel_size, layer.stride, layer.padding
        capacity, c, h, w = buffers.x.shape
        _, o, oh, ow = buffers.y.shape
        sample_bytes = 4 * c * self.k**2 * oh * ow
        self.block = max(1, min(capacity, BLOCK_BYTES // sample_bytes))
        self.patches = self.scratch(buffers.x, (self.block, c, self.k, self.k, oh, ow))
        if self.p:
            self.padded = self.scratch(buffers.x, (self.block, c, h + 2 * self.p, w + 2 * self.p))
            self.padded[...] = 0
        if buffers.dw is not None:
            self.dw_each = self.scratch(buffers.x, (self.block, o, c * self.k**2))
            self.dw_sum = self.scratch(buffers.x, (o, c * self.k**2))

    def forward(self, n: int) -> None:
        t = self.buffers
        xp, o = module_of(t.x), t.y.shape[1]
        w = t.w.reshape(o, -1)
        for first in range(0, n, self.block):
            last = min(n, first + self.block)
            y = t.y[first:last].reshape(last - first, o, -1)
            xp.matmul(w, self._unfold(t.x[first:last]), out=y)
            y += t.b[:, None]

    def backward(self, n: int) -> None:
        t = self.buffers
        xp, o = module_of(t.dy), t.y.shape[1]
        w, dw = t.w.reshape(o, -1), t.dw.reshape(o, -1)
        xp.sum(t.dy[:n], axis=(0, 2, 3), out=t.db)
        dw[...] = 0
        for first in range(0, n, self.block):
            last = min(n, first + self.block)
            dy = t.dy[first:last].reshape(last - first, o, -1)
            patches = self._unfold(t.x[first:last])
            xp.matmul(dy, patches.transpose(0, 2, 1), out=self.dw_each[: last - first])
            dw += xp.sum(self.dw_each[: last - first], axis=0, out=self.dw_sum)
            if t.dx is not None:
                xp.matmul(w.T, dy, out=patches)
                self._fold(t.dx[first:last])

    def _shifted(self, image: Array, i: int, j: int) -> Array:
        """What kernel element (i, j) meets: a view (n, c, oh, ow) of the padded images."""
        oh, ow = self.buffers.y.shape[2:]
        return image[:, :, i : i + (oh - 1) * self.s + 1 : self.s, j : j + (ow - 1) * self.s + 1 : self.s]

    def _inner(self, padded: Array) -> Array:
        p, (h, w) = self.p, self.buffers.x.shape[2:]
        return padded[:, :, p : p + h, p : p + w]

    def _unfold(self, x: Array) -> Array:
        """Copy the patches of some images; returns them as (n, c k k, oh ow)."""
        patches = self.patches[: len(x)]
        if self.p:
            padded = self.padded[: len(x)]
            self._inner(padded)[...] = x
            x = padded
        for i in range(self.k):
            for j in range(self.k):
                patches[:, :, i, j] = self._shifted(x, i, j)
        return patches.reshape(len(x), patches.shape[1] * self.k**2, -1)

    def _fold(self, dx: Array) -> None:
        """Add the patches back to where they came from."""
        n, p = len(dx), self.p
        image = self.padded[:n] if p else dx
        image[...] = 0
        for i in range(self.k):
            for j in range(self.k):
                target = self._shifted(image, i, j)
                target += self.patches[:n, :, i, j]
        if p:
            dx[...] = self._inner(image)
            image[...] = 0  # the frame must be zero for the next images
