"""Activations as data: Tanh, Sigmoid, LeakyReLU, GELU and SiLU, functions of one number. ReLU is in layers.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import NetError
from ..errors.arguments import shown
from .layers import Layer, Shape

#: Roundings of a function, counted as for a sum: a library's exp, tanh or erfc is off by up to four of them at once.
FUNCTION = 16


@dataclass(frozen=True)
class Tanh(Layer):
    """Layer y = tanh(x), as `torch.nn.Tanh`."""

    folder: ClassVar = "activation"
    reads_output: ClassVar = True

    def roundings(self, in_shape: Shape) -> int:
        return FUNCTION


@dataclass(frozen=True)
class Sigmoid(Layer):
    """Layer y = 1 / (1 + exp(-x)), as `torch.nn.Sigmoid`."""

    folder: ClassVar = "activation"
    reads_output: ClassVar = True

    def roundings(self, in_shape: Shape) -> int:
        return FUNCTION


@dataclass(frozen=True)
class LeakyReLU(Layer):
    """Layer y = x if x > 0, else negative_slope * x, as `torch.nn.LeakyReLU`; the derivative at 0 is negative_slope."""

    folder: ClassVar = "activation"
    by_place: ClassVar = ("negative_slope",)
    negative_slope: float = 0.01

    def roundings(self, in_shape: Shape) -> int:
        return 1


@dataclass(frozen=True)
class GELU(Layer):
    """Layer y = x P(X <= x) for a standard normal X, as `torch.nn.GELU`.

    approximate : "none" for the exact function; "tanh" for x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """

    folder: ClassVar = "activation"
    approximate: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.approximate not in ("none", "tanh"):
            raise NetError(f"GELU(approximate={shown(self.approximate)}): wants 'none' or 'tanh'")

    def roundings(self, in_shape: Shape) -> int:
        return 2 * FUNCTION


@dataclass(frozen=True)
class SiLU(Layer):
    """Layer y = x / (1 + exp(-x)), as `torch.nn.SiLU`."""

    folder: ClassVar = "activation"

    def roundings(self, in_shape: Shape) -> int:
        return 2 * FUNCTION


#: Activations but ReLU.
ACTIVATIONS: tuple[type[Layer], ...] = (Tanh, Sigmoid, LeakyReLU, GELU, SiLU)
