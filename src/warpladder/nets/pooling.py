"""Pooling as data: MaxPool2d, AvgPool2d, AdaptiveAvgPool2d."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..errors import NetError
from ..errors.arguments import shown
from .layers import Layer, Shape, image


@dataclass(frozen=True)
class PoolWindows:
    """Square windows of `kernel_size` pixels, `stride` apart (by default `kernel_size`), those that fit an image."""

    by_place: ClassVar[tuple[str, ...]] = ("kernel_size", "stride")
    kernel_size: int
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.stride is None:
            object.__setattr__(self, "stride", self.kernel_size)
        super().__post_init__()  # type: ignore[misc] # the layer's

    def window(self, in_shape: Shape) -> tuple[int, int, int]:
        """Rows and columns of a window, and the stride."""
        assert self.stride is not None
        return self.kernel_size, self.kernel_size, self.stride

    def out_shape(self, in_shape: Shape) -> Shape:
        """(channels, rows, columns) of the windows; `NetError` for an image that is smaller than one."""
        assert self.stride is not None
        layer, size = type(self).__name__, self.kernel_size
        c, h, w = image(layer, in_shape)
        if min(h, w) < size:
            raise NetError(f"{layer} wants at least {size}x{size} pixels, got {in_shape}")
        return c, (h - size) // self.stride + 1, (w - size) // self.stride + 1


@dataclass(frozen=True)
class MaxPool2d(PoolWindows, Layer):
    """Maximum over windows, as `torch.nn.MaxPool2d`, without incomplete windows; of equal values the first."""

    exact: ClassVar = True


@dataclass(frozen=True)
class AvgPool2d(PoolWindows, Layer):
    """Mean over windows, as `torch.nn.AvgPool2d`, without incomplete windows."""

    folder: ClassVar = "avgpool2d"

    def roundings(self, in_shape: Shape) -> int:
        return self.kernel_size**2 + 1


@dataclass(frozen=True)
class AdaptiveAvgPool2d(Layer):
    """Mean over the whole plane, (channels, 1, 1), as `torch.nn.AdaptiveAvgPool2d(1)`, the only size that there is."""

    folder: ClassVar = "avgpool2d"
    by_place: ClassVar = ("output_size",)
    output_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_size != 1:
            raise NetError(f"AdaptiveAvgPool2d(output_size={shown(self.output_size)}): wants 1, the mean of the plane")

    def window(self, in_shape: Shape) -> tuple[int, int, int]:
        """Rows and columns of the plane, and a stride that no second window takes."""
        _, h, w = image("AdaptiveAvgPool2d", in_shape)
        return h, w, 1

    def out_shape(self, in_shape: Shape) -> Shape:
        return (image("AdaptiveAvgPool2d", in_shape)[0], 1, 1)

    def roundings(self, in_shape: Shape) -> int:
        return math.prod(in_shape[1:]) + 1
