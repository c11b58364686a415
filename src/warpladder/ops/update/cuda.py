"""The update by the kernel of the optimizer."""

import math

from ...config import TrainConfig
from ...device import Array, Device
from ..engine.grids import flat
from ..engine.kernels import KernelUpdate, Launches

FILE = "step.cu"


def limit(config: TrainConfig) -> float:
    """Largest absolute value of an element of a gradient; infinity if nothing is clipped."""
    return math.inf if config.clip_value is None else config.clip_value


class NaiveUpdate(KernelUpdate):
    """One thread for each parameter of the net, in one launch a step."""

    def __init__(
        self, device: Device, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...],
        block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, config, params, grads, slots, block_size)
        self.kernel = device.kernel(config.optimizer.folder() / FILE, f"{config.optimizer.name}_step")

    def launches(self, numbers: Array, step: Array | None) -> Launches:
        return [flat(self.kernel, self.params.size, self.block_size, *self.arguments(self.params.size, numbers, step))]

    def arguments(self, count: int, numbers: Array, step: Array | None) -> tuple[object, ...]:
        """Arguments of the kernels of update.cuh, for this many threads."""
        first, second = (*self.slots, None, None)[:2]
        return self.params, self.grads, first, second, count, limit(self.config), numbers, step
