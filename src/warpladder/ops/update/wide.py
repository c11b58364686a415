"""Update by a kernel that moves 16 bytes at a time."""

from ...config import TrainConfig
from ...device import Array, Device
from ..engine.grids import flat
from ..engine.kernels import Launches
from .cuda import FILE, NaiveUpdate


class WideUpdate(NaiveUpdate):
    """Update by one thread for four parameters, if memory bounds it.

    Four roots and quotients in sequence take longer than memory: an optimizer with two slots has a thread for
    each parameter while the device holds all threads at once (Adam on mlp's 101,770 parameters, H200: 0.9 us over SGD
    with momentum instead of 1.9). The naive kernel updates arrays whose size is not a multiple of four.
    """

    def __init__(
        self, device: Device, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...],
        block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, config, params, grads, slots, block_size)
        kernel = f"{config.optimizer.name}_step_by_four"
        held = device.limits.multiprocessors * device.limits.threads_per_multiprocessor
        wide = params.size % 4 == 0 and (len(slots) < 2 or params.size > held)
        self.by_four = device.kernel(config.optimizer.folder() / FILE, kernel) if wide else None

    def step(self, numbers: Array, step: Array | None) -> Launches:
        if self.by_four is None:
            return super().step(numbers, step)
        count = self.params.size // 4
        return [flat(self.by_four, count, self.block_size, *self.arguments(count, numbers, step))]
