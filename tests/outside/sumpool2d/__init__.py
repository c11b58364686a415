"""SumPool2d, a layer that warpladder does not have: added from outside of the package, for the rungs numpy and loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from warpladder.errors import NetError
from warpladder.nets import Layer, Shape


@dataclass(frozen=True)
class SumPool2d(Layer):
    """Sum over windows that do not overlap; incomplete windows at the far edges are dropped."""

    by_place: ClassVar = ("kernel_size",)
    kernel_size: int

    def out_shape(self, in_shape: Shape) -> Shape:
        if len(in_shape) != 3 or min(in_shape[1:]) < self.kernel_size:
            raise NetError(
                f"SumPool2d wants images of at least {self.kernel_size}x{self.kernel_size} pixels, got {in_shape}"
            )
        return (in_shape[0], in_shape[1] // self.kernel_size, in_shape[2] // self.kernel_size)

    def flops(self, in_shape: Shape) -> int:
        return self.kernel_size**2 * math.prod(self.out_shape(in_shape))

    def roundings(self, in_shape: Shape) -> int:
        return self.kernel_size**2
