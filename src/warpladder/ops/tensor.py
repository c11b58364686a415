"""Linear on tensor cores; the tiled rung's kernels for all that is no product. There is nothing for Conv2d yet, and so its nets have no cut."""

from __future__ import annotations

from dataclasses import replace

from ..nets import Conv2d, Linear, ReLU
from ..peaks import TENSOR
from . import tiled
from .linear.tensor import TensorLinear

TABLE = replace(
    tiled.TABLE,
    segments={
        **{nodes: segment for nodes, segment in tiled.TABLE.segments.items() if Conv2d not in nodes},
        (Linear,): TensorLinear,
        (Linear, ReLU): TensorLinear,
    },
    unit=TENSOR,
)
