"""Few samples through a thin chain: two launches, in which as little as possible waits for anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..engine.chain import Slice
from ..engine.kernels import Launches, OnDevice, ceil_div
from .arrays import ChainArrays

FORWARD, GRADIENT = (Path(__file__).with_name(name) for name in ("few_forward.cu", "few_gradient.cu"))

#: Of the gradient's blocks: threads, inputs, and sums over rows.
THREADS, TILE, COLUMNS = 256, 16, 32


class Few:
    """Forward with the loss, a block for each sample; all gradients, with the log and perhaps the update."""

    def __init__(self, owner: OnDevice, arrays: ChainArrays, capacity: int) -> None:
        self.arrays = a = arrays
        self.back = int(a.dx is not None)
        self.wide = 1 if a.inputs % 4 else 4
        loads, most = a.inputs // self.wide, 384 if a.hidden or a.out > 12 else 768
        self.threads = 32 * ceil_div(ceil_div(loads, ceil_div(loads, most)), 32)  # forward: each loads equally often
        self.x = owner.scratch((capacity, a.inputs), a.source.dtype) if a.order is not None else None
        self.small = owner.scratch((capacity, a.small)) if a.hidden else None
        self.lost, self.hits = owner.scratch((capacity,), np.float64), owner.scratch((capacity,), np.int32)

    def forward(self, part: Slice) -> Launches:
        """The loss of n samples, its gradient by the first layer's output, and dx where it is wanted."""
        a, n, batch, offset = self.arrays, part.n, part.batch, self.arrays.start(part)
        w1, b1 = a.weights[:2]
        lost, hits = (self.lost, self.hits) if part.has_loss else (None, None)
        kernel = a.device.kernel(
            FORWARD, f"chain_forward_few<{a.hidden}, {a.out}, {self.wide}, {self.back}, {a.pixel}>"
        )
        return [
            kernel.bind(
                n, self.threads, a.source, a.scale, a.labels, a.order, a.log.step, w1, b1, *a.second(a.weights),
                self.x, a.g, self.small, lost,
                hits, a.dx, a.inputs, a.whole, offset, batch,
            )
        ]  # fmt: skip

    def backward(self, part: Slice) -> Launches:
        """The other gradients, the log, and the update where the batch comes in one piece."""
        a, n, batch, offset = self.arrays, part.n, part.batch, self.arrays.start(part)
        dw1, db1 = a.gradients[:2]
        dw2, db2 = a.second(a.gradients)
        x = a.source[offset : offset + n] if self.x is None else self.x
        small = a.g if self.small is None else self.small
        kernel = a.device.kernel(GRADIENT, f"chain_gradient_few<{a.width}, {self.wide}, {a.pixel}>")
        return [
            kernel.bind(
                ceil_div(a.inputs, TILE) + ceil_div(a.small, COLUMNS) + 1, THREADS, x, a.scale, a.g, n, a.inputs,
                small, small.shape[1], a.small,
                a.out, self.lost, self.hits, dw1, db1, dw2, db2, *a.updated(part), *a.log.entry(part.has_loss), batch,
                int(part.is_first),
                int(part.is_last),
            )
        ]  # fmt: skip
