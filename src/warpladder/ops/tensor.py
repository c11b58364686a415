"""Linear on tensor cores; the tiled rung's kernels for all that is no product. There is nothing for Conv2d yet, and so its nets have no cut.

A thin last layer is one with its loss, in fp32 whatever the precision, where its products are at most a twentieth of the net's: they would leave most of a
fragment of tensor cores empty.
"""

from __future__ import annotations

from dataclasses import replace

from ..nets import Conv2d, CrossEntropyLoss, Linear, ReLU
from ..peaks import TENSOR
from . import tiled
from .chain import Gather
from .linear.tensor import TensorLinear
from .linear.tensor_head import SmallHead

TABLE = replace(
    tiled.TABLE,
    segments={
        **{nodes: segment for nodes, segment in tiled.TABLE.segments.items() if Conv2d not in nodes},
        (Linear,): TensorLinear,
        (Linear, ReLU): TensorLinear,
        (Gather, Linear): TensorLinear,
        (Gather, Linear, ReLU): TensorLinear,
        (Linear, CrossEntropyLoss): SmallHead,
    },
    unit=TENSOR,
)
