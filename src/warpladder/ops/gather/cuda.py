"""Gathering a batch on the device as kernels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...device import Array, Device
from ...errors import KernelError
from ..grids import by_sample, flat
from ..kernels import KernelGather, Launches

NAIVE = Path(__file__).with_name("naive.cu")

#: The kernel for samples of each type.
KERNELS = {np.dtype(np.uint8): "gather_bytes", np.dtype(np.float32): "gather_floats"}


class NaiveGather(KernelGather):
    """With an order, one launch finds each sample's row; the next one, one thread for each number, scales the rows into x."""

    def __init__(
        self, device: Device, source: Array, scale: float, x: Array, labels: Array | None, target: Array | None,
        order: Array | None, step: Array, block_size: int,
    ) -> None:  # fmt: skip
        super().__init__(device, source, scale, x, labels, target, order, step, block_size)
        if source.dtype not in KERNELS:
            raise KernelError(f"samples are gathered from {' or '.join(map(str, KERNELS))}, not from {source.dtype}")
        self.size = math.prod(x.shape[1:])
        self.gathering = device.kernel(NAIVE, KERNELS[source.dtype])
        if order is not None:
            self.ordering = device.kernel(NAIVE, "gather_order")
            self.rows = self.scratch((len(x),), np.int32)
            device.fill(self.rows, 0)  # whoever reads them before they are written reads a sample, not beyond all of them

    def launches(self, n: int, batch: int, offset: int) -> Launches:
        found, rows = [], None
        if self.order is not None:
            rows = self.rows
            found.append(flat(self.ordering, n, self.block_size, self.order, self.step, rows, n, batch, offset))
        where = self.labels, self.target, self.size, n
        return [*found, by_sample(self.gathering, self.size, n, self.block_size, self.source, rows, self.scale, self.x, *where)]
