"""Table of the graph rung: the gemm rung's segments, or the tiled rung's where a tuner finds them faster.

A first layer gathers its samples itself; a last thin layer and the loss are one segment, and so are whole thin nets.
"""

from dataclasses import replace

from ...nets import CrossEntropyLoss, Linear, ReLU
from ..batchnorm.fused import CHAINS as NORMALISED
from ..batchnorm.fused import FusedBatchNorm
from ..batchnorm.pooled import CHAINS as POOLED
from ..batchnorm.pooled import PooledBatchNorm
from ..engine.chain import Gather
from ..engine.separate import SeparateSegments
from ..linear.stem import ShortStem
from ..residual.fused import CHAINS as ADDED
from ..residual.fused import FusedSum
from ..small_chain.chain import SmallChain
from ..small_convolutions.chain import SmallConvolutions
from ..thin_chain.chain import ThinChain
from ..thin_chain.head import ThinHead
from . import gemm, tiled


class Tiled(SeparateSegments):
    """Layers by the tiled rung's segments, as one segment."""

    table = tiled.TABLE


TABLE = replace(
    gemm.TABLE,
    segments={
        **gemm.TABLE.segments,
        **dict.fromkeys(NORMALISED, FusedBatchNorm),
        **dict.fromkeys(POOLED, PooledBatchNorm),
        **dict.fromkeys(ADDED, FusedSum),
        (Gather, Linear): ShortStem,
        (Gather, Linear, ReLU): ShortStem,
        (Linear, CrossEntropyLoss): ThinHead,
        (Gather, Linear, CrossEntropyLoss): ThinChain,
        (Gather, Linear, ReLU, Linear, CrossEntropyLoss): ThinChain,
    },
    chains=(SmallChain,),
    fronts=(SmallConvolutions,),
    alternatives=(Tiled,),
)
