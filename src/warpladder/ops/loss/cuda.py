"""CUDA launcher of losses with settings or with weights of samples."""

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ...nets import CrossEntropyLoss
from ..engine.chain import GeneralLoss, Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import LossSegment, Operands
from . import scalar

NAIVE = Path(__file__).with_name("naive.cu")
#: Most blocks that add up the loss; beyond them threads take several elements each.
BLOCKS = 1024


class NaiveGeneralLoss(LossSegment):
    """Loss in one launch, with a thread for each sample with a label or for each element."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        node = subgraph.nodes[-1]
        assert isinstance(node, GeneralLoss)
        self.kind, self.shares, self.size = node.loss, operands.shares, math.prod(self.x.shape[1:])
        self.has_labels = isinstance(self.kind, CrossEntropyLoss)
        if isinstance(self.kind, CrossEntropyLoss):
            self.kernel = device.kernel(NAIVE, "label_loss")
            self.smoothing = np.float32(self.kind.label_smoothing)
        else:
            self.kernel = device.kernel(NAIVE, f"element_loss<{scalar.number(self.kind)}>")
        numbers = scalar.settings(self.kind, self.size)
        self.setting = device.array(numbers.astype(np.float32), "workspace")
        blocks = self._blocks(len(self.x))
        self.sums = self.scratch((blocks,), np.float64), self.scratch((blocks,), np.int64), self.counters()
        self.workspace += self.setting.nbytes

    def forward(self, part: Slice) -> Launches:
        arrays = self.x, self.target, self.dx, self.setting, self.shares, *self.sums
        place = self.subgraph.batch, part.offset, part.batch, *self.entry(part)
        numbers = (part.n, self.size, self.smoothing) if self.has_labels else (part.n * self.size, self.size)
        return [self.kernel.bind(self._blocks(part.n), self.block_size, *arrays, *numbers, *place)]

    def _blocks(self, n: int) -> int:
        """Number of blocks for n samples: with labels, one for each block_size samples; by element, at most BLOCKS."""
        threads = n if self.has_labels else n * self.size
        blocks = ceil_div(threads, self.block_size)
        return blocks if self.has_labels else min(BLOCKS, blocks)
