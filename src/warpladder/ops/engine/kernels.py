"""Parts of a training step on a device: launches, scratch memory, the log, the update and the sum of gradients."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...device import Array, Call, Device

#: Launches, and calls of vendors' libraries, in order.
Launches = list[Call]


def ceil_div(a: int, b: int) -> int:
    """ceil(a / b)."""
    return -(-a // b)


class OnDevice:
    """Base of classes bound to a device; `workspace` counts the bytes of their scratch memory.

    block_size : threads of a block as the user chose them, a multiple of 32 up to 1024, except in some kernels.
    """

    workspace: int = 0

    def __init__(self, device: Device, block_size: int) -> None:
        self.device, self.block_size = device, block_size

    def scratch(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """Uninitialised array, counted in `workspace`."""
        out = self.device.empty(shape, dtype, "workspace")
        self.workspace += out.nbytes
        return out

    def counters(self, count: int = 1) -> Array:
        """uint32 zeros, counted in `workspace`, with which blocks of a launch count their arrivals."""
        out = self.scratch((count,), np.uint32)
        self.device.fill(out, 0)
        return out


@dataclass(frozen=True)
class Log:
    """Results of an epoch's steps on the device.

    step : (1,) int32, the running step; the last loss launch of a step adds one, before the update.
    loss : (entries,) float64, mean loss of each step's batch, for at least all steps of an epoch.
    correct : (entries,) int64, samples whose largest logit is that of their label; zeros for MSELoss.
    """

    step: Array
    loss: Array
    correct: Array

    def entry(self, has_loss: bool) -> tuple[Array, Array | None, Array | None]:
        """Arguments step, loss and correct of a kernel that ends a loss; without a loss the last two are None."""
        return (self.step, self.loss, self.correct) if has_loss else (self.step, None, None)


@dataclass(frozen=True)
class MaskKey:
    """Key of an epoch's random masks on the device.

    key : (1,) uint32, `Order.mask_key` of the epoch. step : (1,) int32, as `Log.step`.
    """

    key: Array
    step: Array


class KernelUpdate(OnDevice, ABC):
    """One step of the config's optimizer on flat float32 arrays of one size: reads grads, changes params and slots.

    slots : in the order of `Optimizer.slots`.
    """

    def __init__(
        self, device: Device, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...],
        block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, block_size)
        self.config = config
        self.params, self.grads, self.slots = params, grads, slots

    @abstractmethod
    def launches(self, numbers: Array, step: Array | None) -> Launches:
        """Change the parameters once.

        numbers : (steps, NUMBERS) float32, a row for each step of an epoch, or one row if all are equal.
        step : `Log.step`, which the loss has already advanced; None if all steps have the same numbers.
        """


class KernelAccumulate(OnDevice, ABC):
    """Sum of the gradients of a batch in slices. total, part: flat float32 arrays of one size."""

    def __init__(self, device: Device, total: Array, part: Array, block_size: int) -> None:
        super().__init__(device, block_size)
        self.total, self.part = total, part

    @abstractmethod
    def launches(self, first: bool, last: bool) -> Launches:
        """First slice: total = part. Next slices: total += part. Last slice: part += total, the sum."""
