"""Linear and Conv2d on tensor cores; the tiled rung's kernels for all that is no product."""

from __future__ import annotations

from dataclasses import replace

from ..nets import Conv2d, Linear, MaxPool2d, ReLU, Upsample2d
from ..peaks import TENSOR
from . import tiled
from .conv2d.tensor import TensorConv2d
from .linear.tensor import TensorLinear

TABLE = replace(
    tiled.TABLE,
    segments={
        **tiled.TABLE.segments,
        (Linear,): TensorLinear,
        (Linear, ReLU): TensorLinear,
        (Conv2d,): TensorConv2d,
        (Conv2d, ReLU): TensorConv2d,
        (Conv2d, ReLU, MaxPool2d): TensorConv2d,
        (Upsample2d, Conv2d): TensorConv2d,
        (Upsample2d, Conv2d, ReLU): TensorConv2d,
    },
    unit=TENSOR,
)
