"""Few samples through a thin chain: two launches with little latency."""

from pathlib import Path

import numpy as np

from ..engine.chain import Slice
from ..engine.kernels import Launches, OnDevice, ceil_div
from .arrays import ChainArrays

FORWARD, GRADIENT = (Path(__file__).with_name(name) for name in ("few_forward.cu", "few_gradient.cu"))
#: Threads, inputs, and sums over rows of a block of the gradient.
THREADS, TILE, COLUMNS = 256, 16, 32


class Few:
    """Launchers for few samples: forward and loss, a block for each sample; all gradients with log and update."""

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
        """Launches of the loss of n samples, its gradient by the first layer's output, and dx unless None."""
        a, n, batch, offset = self.arrays, part.n, part.batch, self.arrays.start(part)
        w1, b1 = a.weights[:2]
        lost, hits = (self.lost, self.hits) if part.has_loss else (None, None)
        types = f"{a.hidden}, {a.out}, {self.wide}, {self.back}, {a.pixel}"
        read = a.source, a.scale, a.labels, a.order, a.log.step, w1, b1, *a.second(a.weights)
        written = self.x, a.g, self.small, lost, hits, a.dx
        numbers = a.inputs, a.whole, offset, batch
        kernel = a.device.kernel(FORWARD, f"chain_forward_few<{types}>")
        return [kernel.bind(n, self.threads, *read, *written, *numbers)]

    def backward(self, part: Slice) -> Launches:
        """Launches of the remaining gradients, the log, and the update if the batch comes in one slice."""
        a, n, offset = self.arrays, part.n, self.arrays.start(part)
        dw1, db1 = a.gradients[:2]
        x = a.source[offset : offset + n] if self.x is None else self.x
        small = a.g if self.small is None else self.small
        kernel = a.device.kernel(GRADIENT, f"chain_gradient_few<{a.width}, {self.wide}, {a.pixel}>")
        blocks = ceil_div(a.inputs, TILE) + ceil_div(a.small, COLUMNS) + 1
        read = x, a.scale, a.g, n, a.inputs, small, small.shape[1], a.small, a.out, self.lost, self.hits
        log = *a.log.entry(part.has_loss), part.batch, int(part.is_first), int(part.is_last)
        return [kernel.bind(blocks, THREADS, *read, dw1, db1, *a.second(a.gradients), *a.updated(part), *log)]
