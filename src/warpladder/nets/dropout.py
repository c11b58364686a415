"""Dropout as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import NetError
from ..errors.arguments import shown
from .layers import Layer, Shape


@dataclass(frozen=True)
class Dropout(Layer):
    """Layer with y = 0 with probability p, else x / (1 - p), in training; y = x in predictions; as `torch.nn.Dropout`.

    A number's mask depends on the run's seed, the epoch, the layer's number, the sample's position in the epoch's order
    and the number's index in the sample, so every rung, device and resumed run draws the same masks.
    """

    by_place: ClassVar = ("p",)
    is_random: ClassVar = True
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.p <= 1:
            raise NetError(f"Dropout(p={shown(self.p)}): wants a probability from 0 to 1")

    @property
    def scale(self) -> float:
        """Factor of the numbers that are not dropped, 1 / (1 - p); 0 if all are dropped."""
        return 1 / (1 - self.p) if self.p < 1 else 0.0

    @property
    def threshold(self) -> int:
        """Integer below 2^32: a number is dropped if its hash is smaller."""
        return min(round(self.p * 2**32), 2**32 - 1)

    def roundings(self, in_shape: Shape) -> int:
        return 2
