"""CUDA launcher of gradient accumulation over the slices of a batch."""

from pathlib import Path

from ...device import Array, Device
from ..engine.grids import flat
from ..engine.kernels import KernelAccumulate, Launches

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveAccumulate(KernelAccumulate):
    """Gradient accumulation by one thread for each number."""

    def __init__(self, device: Device, total: Array, part: Array, block_size: int) -> None:
        super().__init__(device, total, part, block_size)
        self.setting = device.kernel(NAIVE, "accumulate_set")
        self.adding = device.kernel(NAIVE, "accumulate_add")

    def launches(self, first: bool, last: bool) -> Launches:
        if first and last:  # the part is the sum
            return []
        source, target = (self.total, self.part) if last else (self.part, self.total)
        return [flat(self.setting if first else self.adding, source.size, self.block_size, source, target, source.size)]
