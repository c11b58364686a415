"""Table of the gemm rung: Linear and convolutions as products by register tiles; the tiled rung's other kernels."""

from dataclasses import replace

from ...nets import Conv2d, Linear, MaxPool2d, ReLU, Upsample2d
from ..conv2d.gemm import GemmConv2d
from ..linear.gemm import GemmLinear
from . import tiled

TABLE = replace(
    tiled.TABLE,
    segments={
        **tiled.TABLE.segments,
        (Linear,): GemmLinear,
        (Linear, ReLU): GemmLinear,
        (Conv2d,): GemmConv2d,
        (Conv2d, ReLU): GemmConv2d,
        (Conv2d, ReLU, MaxPool2d): GemmConv2d,
        (Upsample2d, Conv2d): GemmConv2d,
        (Upsample2d, Conv2d, ReLU): GemmConv2d,
    },
)
