"""CUDA launchers of the gathering of a batch on the naive rung."""

import math
from pathlib import Path

import numpy as np

from ...device import Device
from ...errors import KernelError
from ..engine.chain import Slice, Subgraph
from ..engine.grids import by_sample, flat
from ..engine.kernels import Launches
from ..engine.segments import GatherSegment, Operands

NAIVE = Path(__file__).with_name("naive.cu")
#: The kernel for samples of each type.
KERNELS = {np.dtype(np.uint8): "gather_bytes", np.dtype(np.float32): "gather_floats"}


class NaiveGather(GatherSegment):
    """Gathering in two launches: the samples' rows by the epoch's order; the scaled numbers, a thread for each."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        stored = self.samples.stored.dtype
        if stored not in KERNELS:
            raise KernelError(f"samples are gathered from {' or '.join(map(str, KERNELS))}, not from {stored}")
        self.size = math.prod(self.x.shape[1:])
        self.gathering = device.kernel(NAIVE, KERNELS[stored])
        if self.samples.order is not None:
            self.ordering = device.kernel(NAIVE, "gather_order")
            self.rows = self.scratch((len(self.x),), np.int32)
            device.fill(self.rows, 0)  # rows that no launch has written yet are those of a sample

    def forward(self, part: Slice) -> Launches:
        s, n = self.samples, part.n
        found: Launches = []
        if s.order is not None:
            order = s.order, s.step, self.rows, n, self.subgraph.batch, part.offset
            found.append(flat(self.ordering, n, self.block_size, *order))
        rows = None if s.order is None else self.rows
        arguments = s.stored, rows, s.scale, self.x, s.labels, self.target, self.size, n
        return [*found, by_sample(self.gathering, self.size, n, self.block_size, *arguments)]
