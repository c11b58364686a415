"""Dropout as array expressions of NumPy or CuPy."""

import math
from typing import Any

import numpy as np

from ...data.order import mix32_array
from ...nets import Layer
from ..engine.base import Array, Buffers, Op, module_of


class ArrayDropout(Op):
    """Dropout y = x m, dx = dy m; `begin` draws the masks m, (capacity, *shape) in the arrays' element type."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.xp: Any = module_of(buffers.x)
        self.rows, self.elements = (
            self.xp.arange(size, dtype=np.uint32) for size in (len(buffers.x), math.prod(buffers.x.shape[1:]))
        )
        self.mask: Array = None  # predictions need none

    def begin(self, key: int, position: int) -> None:
        if self.mask is None:
            self.mask = self.scratch(self.buffers.y, self.buffers.y.shape)
            self.hashes = self.scratch(self.buffers.y, (len(self.rows), len(self.elements)), np.uint32)
        of_sample = mix32_array((self.rows + np.uint32(position)) ^ np.uint32(key))
        self.xp.bitwise_xor(of_sample[:, None], self.elements, out=self.hashes)
        kept = mix32_array(self.hashes) >= np.uint32(self.layer.threshold)
        self.xp.multiply(kept, self.mask.dtype.type(self.layer.scale), out=self.mask.reshape(kept.shape))

    def forward(self, n: int) -> None:
        t = self.buffers
        self.xp.multiply(t.x[:n], self.mask[:n], out=t.y[:n])

    def predict(self, n: int) -> None:
        self.buffers.y[:n] = self.buffers.x[:n]

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            self.xp.multiply(t.dy[:n], self.mask[:n], out=t.dx[:n])
