"""Gathering of rows as array expressions: a take, and a multiplication that converts bytes to floats."""

import math

import numpy as np

from ..engine.base import Array, GatherOp, chunk_bytes, module_of


class ArrayGather(GatherOp):
    """Gathering x[i] = source[indices[i]] * scale; the product is float32 for any dtype of x, as on all rungs."""

    def __init__(self, source: Array, scale: float, x: Array) -> None:
        super().__init__(source, scale, x)
        # As many rows at a time as the cache holds: a full batch needs no second copy of the data set.
        self.chunk = max(1, min(len(x), chunk_bytes(x) // (4 * math.prod(x.shape[1:]))))
        self.raw = self.scratch(source, (self.chunk, *source.shape[1:]), source.dtype)
        # The products, where x is wider than they are.
        self.product = None if x.dtype == np.float32 else self.scratch(x, (self.chunk, *x.shape[1:]), np.float32)
        # NumPy takes straight into `out` only where it need not check the indices; an Order's are right.
        self.unchecked = {"mode": "clip"} if module_of(source) is np else {}

    def rows(self, indices: Array) -> None:
        xp = module_of(self.source)
        for first in range(0, len(indices), self.chunk):
            some = indices[first : first + self.chunk]
            raw, x = self.raw[: len(some)], self.x[first : first + len(some)]
            xp.take(self.source, some, axis=0, out=raw, **self.unchecked)
            product = x if self.product is None else self.product[: len(some)]
            product[...] = raw
            product *= self.scale
            if product is not x:
                x[...] = product
