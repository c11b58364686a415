"""ELU, a layer that warpladder does not have: added from outside of the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warpladder.nets import Layer, Shape


@dataclass(frozen=True)
class ELU(Layer):
    """y = x where x > 0, else alpha * (exp(x) - 1), as `torch.nn.ELU`."""

    by_place: ClassVar = ("alpha",)
    alpha: float = 1.0

    def roundings(self, in_shape: Shape) -> int:
        return 16
