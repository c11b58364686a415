"""CUDA launchers of softmax cross-entropy."""

from pathlib import Path

import numpy as np

from ...device import Device
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands

NAIVE = Path(__file__).with_name("naive.cu")
FUSED = Path(__file__).with_name("fused.cu")


class NaiveCrossEntropy(LossSegment):
    """Cross-entropy in three launches: probabilities and losses by sample, the gradient by logit, the log entry."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        capacity, self.classes = self.x.shape
        names = "cross_entropy_softmax", "cross_entropy_gradient", "cross_entropy_log"
        self.softmax, self.gradient, self.logging = (device.kernel(NAIVE, name) for name in names)
        self.losses = self.scratch((capacity,))
        self.hits = self.scratch((capacity,), np.int32)

    def forward(self, part: Slice) -> Launches:
        n, batch, size = part.n, part.batch, self.block_size
        losses = (self.losses, self.hits) if part.has_loss else (None, None)
        return [
            flat(self.softmax, n, size, self.x, self.target, self.dx, *losses, n, self.classes),
            flat(self.gradient, n * self.classes, size, self.target, self.dx, n, self.classes, batch),
            self.logging.bind(1, size, *losses, n if part.has_loss else 0, batch, *self.entry(part)),
        ]


class FusedCrossEntropy(LossSegment):
    """Cross-entropy in one launch: the last block to finish adds the sums of all blocks."""

    source, name = FUSED, "cross_entropy_fused"

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        capacity, self.classes = self.x.shape
        self.kernel = device.kernel(self.source, self.name)
        most = self.blocks(capacity)
        self.scratched = self.scratch((most,), np.float64), self.scratch((most,), np.int64), self.counters()

    def blocks(self, n: int) -> int:
        """Number of blocks of the launch for n samples."""
        return ceil_div(n, self.block_size)

    def forward(self, part: Slice) -> Launches:
        arrays = self.x, self.target, self.dx, *self.scratched
        numbers = part.n, self.classes, part.batch
        return [self.kernel.bind(self.blocks(part.n), self.block_size, *arrays, *numbers, *self.entry(part))]
