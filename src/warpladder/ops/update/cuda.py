"""Update by the optimizer's CUDA kernel."""

import math

from ...config import TrainConfig
from ...device import Array, Device
from ..engine.grids import flat
from ..engine.kernels import KernelUpdate, Launches
from .norm import NormClip

FILE = "step.cu"


def limit(config: TrainConfig) -> float:
    """Clipping bound of a gradient's elements; infinity without clipping."""
    return math.inf if config.clip_value is None else config.clip_value


class NaiveUpdate(KernelUpdate):
    """Update in one launch, with one thread for each parameter of the net.

    If the config has a `clip_norm`, the launches of `NormClip` precede it: params are then all of the net's.
    """

    def __init__(
        self, device: Device, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...],
        block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, config, params, grads, slots, block_size)
        self.kernel = device.kernel(config.optimizer.folder() / FILE, f"{config.optimizer.name}_step")
        self.clipping = None if config.clip_norm is None else NormClip(device, grads, config.clip_norm, block_size)
        self.workspace += 0 if self.clipping is None else self.clipping.workspace

    def launches(self, numbers: Array, step: Array | None) -> Launches:
        return [*([] if self.clipping is None else self.clipping.launches()), *self.step(numbers, step)]

    def step(self, numbers: Array, step: Array | None) -> Launches:
        """Launches of the optimizer's step without clipping; arguments as in `launches`."""
        return [flat(self.kernel, self.params.size, self.block_size, *self.arguments(self.params.size, numbers, step))]

    def arguments(self, count: int, numbers: Array, step: Array | None) -> tuple[object, ...]:
        """Arguments of the kernels of update.cuh, for `count` threads."""
        first, second = (*self.slots, None, None)[:2]
        return self.params, self.grads, first, second, count, limit(self.config), numbers, step
