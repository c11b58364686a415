"""Softmax cross-entropy on cuDNN's log-softmax (S5)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...device import Array, Device
from ...gpu.cudnn import LogSoftmax, cudnn
from ...gpu.library import LibraryCall
from ..grids import flat
from ..kernels import KernelLoss, Launches, Log, ceil_div

KERNEL = Path(__file__).with_name("library.cu")


class LibraryCrossEntropy(KernelLoss):
    """cuDNN writes the logarithms of the probabilities to dx; one kernel makes of them gradient, loss and accuracy."""

    def __init__(self, device: Device, x: Array, target: Array, dx: Array, log: Log, block_size: int) -> None:
        super().__init__(device, x, target, dx, log, block_size)
        capacity, self.classes = x.shape
        self.kernel = device.kernel(KERNEL, "cross_entropy_from_log")
        blocks = ceil_div(capacity, block_size)
        self.parts = self.scratch((blocks,), np.float64)
        self.counts = self.scratch((blocks,), np.int64)
        self.arrived = self.scratch((1,), np.uint32)
        device.fill(self.arrived, 0)

    def launches(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        log = self.log.step, self.log.loss, self.log.correct, first, last
        scratch = self.parts, self.counts, self.arrived
        return [
            LibraryCall(self.device, LogSoftmax(cudnn(self.device), self.x[:n], self.dx[:n]), None),
            flat(self.kernel, n, self.block_size, self.x, self.target, self.dx, *scratch, n, self.classes, batch, *log),
        ]
