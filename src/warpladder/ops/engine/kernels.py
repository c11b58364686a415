"""Parts of a training step on a device: launches, scratch memory, the log, the update and gradient accumulation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...device import Array, Call, Device

#: Launches, and calls of vendors' libraries, in order.
Launches = list[Call]


def ceil_div(a: int, b: int) -> int:
    """Quotient a / b, rounded up."""
    return -(-a // b)


class OnDevice:
    """Base of classes bound to a device; `workspace` counts the bytes of their scratch memory.

    block_size : the user's threads per block, a multiple of 32 up to 1024; some kernels use another number.
    """

    workspace: int = 0

    def __init__(self, device: Device, block_size: int) -> None:
        self.device, self.block_size = device, block_size

    def scratch(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """Uninitialised device array, counted in `workspace`."""
        out = self.device.empty(shape, dtype, "workspace")
        self.workspace += out.nbytes
        return out

    def counters(self, count: int = 1) -> Array:
        """Array (count,) of uint32 zeros, in which a launch's blocks count their arrivals; part of `workspace`."""
        out = self.scratch((count,), np.uint32)
        self.device.fill(out, 0)
        return out


@dataclass(frozen=True)
class Log:
    """Losses and numbers of correct samples of an epoch's steps, on the device.

    step : (1,) int32, number of the running step; the last loss launch of a step adds one, before the update.
    loss : (entries,) float64, mean loss of each step's batch, for at least all steps of an epoch.
    correct : (entries,) int64, samples whose largest logit is their label's; zeros for MSELoss.
    """

    step: Array
    loss: Array
    correct: Array

    def entry(self, has_loss: bool) -> tuple[Array, Array | None, Array | None]:
        """Arguments step, loss and correct of a kernel that finishes a loss; the last two are None if not has_loss."""
        return (self.step, self.loss, self.correct) if has_loss else (self.step, None, None)


@dataclass(frozen=True)
class MaskKey:
    """Key of an epoch's random masks, on the device.

    key : (1,) uint32, `Order.mask_key` of the epoch. step : (1,) int32, as `Log.step`.
    """

    key: Array
    step: Array


class KernelUpdate(OnDevice, ABC):
    """Step of the config's optimizer on flat float32 arrays of one size: it reads grads, and changes params and slots.

    slots : arrays in the order of `Optimizer.slots`.
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
        """Launches that update the parameters once.

        numbers : (steps, NUMBERS) float32, a row for each step of an epoch, or one row if all are equal.
        step : `Log.step`, which the loss has already advanced; None if all steps have equal numbers.
        """


class KernelAccumulate(OnDevice, ABC):
    """Sum of the gradients of a batch's slices. total, part : flat float32 arrays of equal size."""

    def __init__(self, device: Device, total: Array, part: Array, block_size: int) -> None:
        super().__init__(device, block_size)
        self.total, self.part = total, part

    @abstractmethod
    def launches(self, first: bool, last: bool) -> Launches:
        """Launches for a slice's gradients. First: total = part. Next: total += part. Last: part += total, the sum."""
