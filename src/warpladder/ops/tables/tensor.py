"""Table of the tensor rung: Linear and Conv2d on tensor cores; the tiled rung's kernels for all other nodes.

A thin last layer is one segment with its loss, in fp32 in every precision, if its products are a small share of the
net's (engine/tensor_limits.py): it would leave most of a fragment of tensor cores empty. The graph rung's segments
compute the layers that are faster with them, in fp32 in every precision (trainers/tuning/below.py).
"""

from dataclasses import replace

from ...machine.peaks import TENSOR
from ...nets import Conv2d, CrossEntropyLoss, Linear, MaxPool2d, MSELoss, ReLU, Upsample2d
from ..batchnorm.fused import CHAINS as NORMALISED
from ..batchnorm.fused import FusedBatchNorm
from ..batchnorm.pooled import CHAINS as POOLED
from ..batchnorm.pooled import PooledBatchNorm
from ..conv2d.gemm import GemmConv2d
from ..conv2d.tensor.loss import TensorConv2dLoss
from ..conv2d.tensor.segment import TensorConv2d
from ..engine.chain import Gather, Subgraph
from ..linear.tensor.head import SmallHead
from ..linear.tensor.segment import TensorLinear
from ..one_pass.chain import OnePass
from ..residual.fused import CHAINS as ADDED
from ..residual.fused import FusedSum
from . import graph, tiled

#: Nodes that a convolution's kernels fuse.
CONVOLUTIONS: tuple[tuple[type, ...], ...] = (
    (Conv2d,), (Conv2d, ReLU), (Conv2d, ReLU, MaxPool2d), (Upsample2d, Conv2d), (Upsample2d, Conv2d, ReLU),
)  # fmt: skip


class GemmWindows(GemmConv2d):
    """Convolution with a window whose weights have no room in shared memory, by the gemm rung's kernels in fp32."""

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return tuple(map(type, subgraph.nodes)) in CONVOLUTIONS and super().takes(subgraph)


TABLE = replace(
    tiled.TABLE,
    segments={
        **tiled.TABLE.segments,
        **dict.fromkeys(NORMALISED, FusedBatchNorm),
        **dict.fromkeys(POOLED, PooledBatchNorm),
        **dict.fromkeys(ADDED, FusedSum),
        (Linear,): TensorLinear,
        (Linear, ReLU): TensorLinear,
        (Gather, Linear): TensorLinear,
        (Gather, Linear, ReLU): TensorLinear,
        (Linear, CrossEntropyLoss): SmallHead,
        **dict.fromkeys(CONVOLUTIONS, TensorConv2d),
        (Conv2d, MSELoss): TensorConv2dLoss,
        (Upsample2d, Conv2d, MSELoss): TensorConv2dLoss,
    },
    chains=(OnePass, GemmWindows),
    unit=TENSOR,
    interleaves_steps=True,
    below=graph.TABLE,
)
