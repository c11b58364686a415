"""Gathering a batch on the device in one kernel, four numbers at a time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...device import Array, Device
from ...errors import KernelError
from ..kernels import KernelGather, Launches, ceil_div

WIDE = Path(__file__).with_name("wide.cu")

#: What a thread reads and writes, for samples of each type, one number at a time and four.
TYPES = {
    (np.dtype(np.uint8), 1): "unsigned char, float",
    (np.dtype(np.uint8), 4): "uchar4, float4",
    (np.dtype(np.float32), 1): "float, float",
    (np.dtype(np.float32), 4): "float4, float4",
}


class WideGather(KernelGather):
    """One launch: a block for each sample finds its row and copies it, four numbers at a time where a sample's size is a multiple of four.

    block_size bounds the threads of a block; short rows have fewer.
    """

    def __init__(
        self, device: Device, source: Array, scale: float, x: Array, labels: Array | None, target: Array | None,
        order: Array | None, step: Array, block_size: int,
    ) -> None:  # fmt: skip
        super().__init__(device, source, scale, x, labels, target, order, step, block_size)
        size = math.prod(x.shape[1:])
        width = 4 if size % 4 == 0 else 1
        if (source.dtype, width) not in TYPES:
            raise KernelError(f"samples are gathered from uint8 or float32, not from {source.dtype}")
        self.size = size // width
        self.threads = min(block_size, ceil_div(self.size, 32) * 32)
        self.kernel = device.kernel(WIDE, f"gather_rows<{TYPES[source.dtype, width]}>")

    def launches(self, n: int, batch: int, offset: int) -> Launches:
        where = self.labels, self.target, self.order, self.step
        return [self.kernel.bind(n, self.threads, self.source, self.scale, self.x, *where, self.size, batch, offset)]
