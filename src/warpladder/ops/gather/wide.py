"""Gathering of a batch on the device in one kernel, four numbers at a time."""

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ...errors import KernelError
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import GatherSegment, Operands

WIDE = Path(__file__).with_name("wide.cu")
#: Types that a thread reads and writes, by the type of samples, one number at a time and four.
TYPES = {
    (np.dtype(np.uint8), 1): "unsigned char, float",
    (np.dtype(np.uint8), 4): "uchar4, float4",
    (np.dtype(np.float32), 1): "float, float",
    (np.dtype(np.float32), 4): "float4, float4",
}


class WideGather(GatherSegment):
    """Gathering in one launch: a block finds the row of a sample and copies it, by four numbers if the size is a
    multiple.

    block_size bounds the threads of a block; short rows have fewer.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        size, stored = math.prod(self.x.shape[1:]), self.samples.stored.dtype
        width = 4 if size % 4 == 0 else 1
        if (stored, width) not in TYPES:
            raise KernelError(f"samples are gathered from uint8 or float32, not from {stored}")
        self.size = size // width
        self.threads = min(block_size, ceil_div(self.size, 32) * 32)
        self.kernel = device.kernel(WIDE, f"gather_rows<{TYPES[stored, width]}>")

    def forward(self, part: Slice) -> Launches:
        s = self.samples
        arguments = s.stored, s.scale, self.x, s.labels, self.target, s.order, s.step
        numbers = self.size, self.subgraph.batch, part.offset
        return [self.kernel.bind(part.n, self.threads, *arguments, *numbers)]
