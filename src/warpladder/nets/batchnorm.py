"""Batch normalisation as data: BatchNorm1d and BatchNorm2d."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import NetError
from ..errors.arguments import shown
from .layers import Layer, Shape, image

#: Roundings of a normalised number, and of its gradient: each is a difference from means in which two or three binary
#: digits cancel, so that an error counts four to eight times, and an error of k roundings' size counts k * k of them.
NORMALISED = 128


class _Normalisation:
    """Settings and shapes common to BatchNorm1d and BatchNorm2d."""

    folder: ClassVar = "batchnorm"
    normalizes: ClassVar = True
    eps: float
    momentum: float
    affine: bool

    def __post_init__(self) -> None:
        name: Any = type(self).__name__
        if self.momentum is None:
            raise NetError(f"{name}(momentum=None): running statistics here have a momentum: give a number from 0 to 1")
        super().__post_init__()  # type: ignore[misc]
        if not self.eps > 0:
            raise NetError(f"{name}(eps={shown(self.eps)}): wants a number above 0")
        if not 0 <= self.momentum <= 1:
            raise NetError(f"{name}(momentum={shown(self.momentum)}): wants a number from 0 to 1")

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return {"weight": in_shape[:1], "bias": in_shape[:1]} if self.affine else {}

    def buffer_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return {"running_mean": in_shape[:1], "running_var": in_shape[:1]}

    def flops(self, in_shape: Shape) -> int:
        return 4 * math.prod(in_shape)

    def roundings(self, in_shape: Shape) -> int:
        return NORMALISED


@dataclass(frozen=True, kw_only=True)
class BatchNorm1d(_Normalisation, Layer):
    """Layer y = (x - mean) / sqrt(var + eps) * weight + bias for each feature, as `torch.nn.BatchNorm1d`.

    In training mean and biased variance are the batch's; predictions use running ones, which each batch moves by
    the share `momentum` towards its mean and its unbiased variance. Without `affine` there is no weight and no bias.
    """

    eps: float = 1e-5
    momentum: float = 0.1
    affine: bool = True

    def out_shape(self, in_shape: Shape) -> Shape:
        if len(in_shape) != 1:
            raise NetError(f"BatchNorm1d wants a flat input (features,), got {in_shape}: take BatchNorm2d")
        return in_shape


@dataclass(frozen=True, kw_only=True)
class BatchNorm2d(_Normalisation, Layer):
    """Layer like `BatchNorm1d` for each channel of an image, over samples and pixels, as `torch.nn.BatchNorm2d`."""

    eps: float = 1e-5
    momentum: float = 0.1
    affine: bool = True

    def out_shape(self, in_shape: Shape) -> Shape:
        return image("BatchNorm2d", in_shape)


#: Layers whose outputs in training depend on the whole batch.
NORMALISATIONS = (BatchNorm1d, BatchNorm2d)
