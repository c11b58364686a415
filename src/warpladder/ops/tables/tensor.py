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
from ..conv2d.tensor.loss import TensorConv2dLoss
from ..conv2d.tensor.segment import TensorConv2d
from ..engine.chain import Gather
from ..linear.tensor.head import SmallHead
from ..linear.tensor.segment import TensorLinear
from ..residual.fused import CHAINS as ADDED
from ..residual.fused import FusedSum
from . import graph, tiled

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
        (Conv2d,): TensorConv2d,
        (Conv2d, ReLU): TensorConv2d,
        (Conv2d, ReLU, MaxPool2d): TensorConv2d,
        (Upsample2d, Conv2d): TensorConv2d,
        (Upsample2d, Conv2d, ReLU): TensorConv2d,
        (Conv2d, MSELoss): TensorConv2dLoss,
        (Upsample2d, Conv2d, MSELoss): TensorConv2dLoss,
    },
    unit=TENSOR,
    interleaves_steps=True,
    below=graph.TABLE,
)
