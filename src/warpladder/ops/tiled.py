"""Tiles in shared memory, sums by warps, 16 bytes at a time; the naive kernels for layers that only compare or copy."""

from __future__ import annotations

from ..nets import Conv2d, CrossEntropyLoss, Linear, MSELoss, ReLU
from . import naive
from .conv2d.tiled import TiledConv2d
from .cross_entropy.tiled import TiledCrossEntropy
from .gather.wide import WideGather
from .kernels import KernelTable
from .linear.tiled import TiledLinear
from .mse.tiled import TiledMSE
from .update.wide import WideUpdate

TABLE = KernelTable(
    layers={
        **naive.TABLE.layers,
        (Linear,): TiledLinear,
        (Linear, ReLU): TiledLinear,
        (Conv2d,): TiledConv2d,
        (Conv2d, ReLU): TiledConv2d,
    },
    losses={CrossEntropyLoss: TiledCrossEntropy, MSELoss: TiledMSE},
    update=WideUpdate,
    gather=WideGather,
    accumulate=naive.TABLE.accumulate,
)
