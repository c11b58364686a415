"""Table of the tiled rung: tiles in shared memory, sums by warps, 16-byte copies; naive kernels where none help."""

from ...nets import AdaptiveAvgPool2d, AvgPool2d, Conv2d, CrossEntropyLoss, Linear, MSELoss, ReLU
from ..avgpool2d.tiled import TiledAvgPool2d
from ..conv2d.tiled import TiledConv2d
from ..cross_entropy.tiled import TiledCrossEntropy
from ..engine.chain import Gather
from ..engine.segments import KernelTable
from ..gather.wide import WideGather
from ..linear.tiled import TiledLinear
from ..mse.tiled import TiledMSE
from ..update.wide import WideUpdate
from . import naive

TABLE = KernelTable(
    segments={
        **naive.TABLE.segments,
        (Gather,): WideGather,
        (Linear,): TiledLinear,
        (Linear, ReLU): TiledLinear,
        (Conv2d,): TiledConv2d,
        (Conv2d, ReLU): TiledConv2d,
        (AvgPool2d,): TiledAvgPool2d,
        (AdaptiveAvgPool2d,): TiledAvgPool2d,
        (CrossEntropyLoss,): TiledCrossEntropy,
        (MSELoss,): TiledMSE,
    },
    update=WideUpdate,
    accumulate=naive.TABLE.accumulate,
)
