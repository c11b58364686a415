"""Pooling layers as data: MaxPool2d, AvgPool2d, AdaptiveAvgPool2d."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..errors import NetError
from ..errors.arguments import shown
from .layers import Layer, Shape, image


@dataclass(frozen=True)
class PoolWindows:
    """Square windows of `kernel_size` pixels, at a stride (by default `kernel_size`), without incomplete windows."""

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
        """Number of windows (channels, rows, columns). Raises `NetError` for an image that is smaller than a window."""
        assert self.stride is not None
        layer, size = type(self).__name__, self.kernel_size
        c, h, w = image(layer, in_shape)
        if min(h, w) < size:
            raise NetError(f"{layer} wants at least {size}x{size} pixels, got {in_shape}")
        return c, (h - size) // self.stride + 1, (w - size) // self.stride + 1


@dataclass(frozen=True)
class MaxPool2d(PoolWindows, Layer):
    """Layer of the maximum over windows, the first of equals, as `torch.nn.MaxPool2d`, without incomplete windows."""

    exact: ClassVar = True


@dataclass(frozen=True)
class AvgPool2d(PoolWindows, Layer):
    """Layer of the mean over windows, as `torch.nn.AvgPool2d`, without incomplete windows."""

    folder: ClassVar = "avgpool2d"

    def roundings(self, in_shape: Shape) -> int:
        return self.kernel_size**2 + 1


@dataclass(frozen=True)
class AdaptiveAvgPool2d(Layer):
    """Layer of the mean over the whole image, to (channels, 1, 1), as `torch.nn.AdaptiveAvgPool2d(1)`."""

    folder: ClassVar = "avgpool2d"
    by_place: ClassVar = ("output_size",)
    output_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_size != 1:
            raise NetError(f"AdaptiveAvgPool2d(output_size={shown(self.output_size)}): wants 1, the mean of the plane")

    def window(self, in_shape: Shape) -> tuple[int, int, int]:
        """Rows and columns of the image, which is the only window, and a stride that is not used."""
        _, h, w = image("AdaptiveAvgPool2d", in_shape)
        return h, w, 1

    def out_shape(self, in_shape: Shape) -> Shape:
        return (image("AdaptiveAvgPool2d", in_shape)[0], 1, 1)

    def roundings(self, in_shape: Shape) -> int:
        return math.prod(in_shape[1:]) + 1
