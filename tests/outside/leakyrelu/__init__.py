"""LeakyReLU, a layer that warpladder does not have: added from outside of the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warpladder.nets import Layer, Shape


@dataclass(frozen=True)
class LeakyReLU(Layer):
    """y = x where x > 0, else negative_slope * x, as `torch.nn.LeakyReLU`."""

    by_place: ClassVar = ("negative_slope",)
    negative_slope: float = 0.01

    def roundings(self, in_shape: Shape) -> int:
        return 1
