"""Parts of a training step on a device: launches, scratch memory, the log, the update and the sum of gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...device import Array, Call, Device

#: A launch each, or a call of a vendor's library.
Launches = list[Call]


def ceil_div(a: int, b: int) -> int:
    """ceil(a / b)."""
    return -(-a // b)


class OnDevice:
    """Base of classes bound to a device: it counts their scratch memory in bytes.

    block_size : threads in a block that the user asked for, a multiple of 32 from 32 to 1024; kernels whose shape is
    their idea have their own.
    """

    workspace: int = 0

    def __init__(self, device: Device, block_size: int) -> None:
        self.device, self.block_size = device, block_size

    def scratch(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """An uninitialised array; its bytes are added to `workspace`."""
        out = self.device.empty(shape, dtype, "workspace")
        self.workspace += out.nbytes
        return out


@dataclass(frozen=True)
class Log:
    """Results of an epoch's steps on the device.

    step : (1,) int32, the step that is running; a step's last loss launch adds one, so that the update finds the number
    of the next step there.
    loss : (entries,) float64, the mean loss of each step's batch; there are at least as many entries as steps in an
    epoch.
    correct : (entries,) int64, samples whose largest logit is their label's; zeros for MSELoss.
    """

    step: Array
    loss: Array
    correct: Array

    def entry(self, has_loss: bool) -> tuple[Array, Array | None, Array | None]:
        """Arguments of kernels that end a loss: step, loss and correct; None for a loss that is not computed."""
        return (self.step, self.loss, self.correct) if has_loss else (self.step, None, None)


class KernelUpdate(OnDevice, ABC):
    """One step of the config's optimizer on flat arrays of one size, float32: reads grads, changes params and slots, in
    the order of `Optimizer.slots`.
    """

    def __init__(
        self,
        device: Device,
        config: TrainConfig,
        params: Array,
        grads: Array,
        slots: tuple[Array, ...],
        block_size: int,
    ) -> None:
        super().__init__(device, block_size)
        self.config = config
        self.params, self.grads, self.slots = params, grads, slots

    @abstractmethod
    def launches(self, numbers: Array, step: Array | None) -> Launches:
        """Change the parameters once.

        Parameters
        ----------
        numbers : Array
            (steps, NUMBERS) float32, a row for each step of an epoch; the first one alone where all are the same.
        step : Array or None
            `Log.step`, which the loss has moved on already; None where all steps have the same numbers.
        """


class KernelAccumulate(OnDevice, ABC):
    """The gradients of a batch that comes in slices, added up: total and part are flat arrays of one size, float32."""

    def __init__(self, device: Device, total: Array, part: Array, block_size: int) -> None:
        super().__init__(device, block_size)
        self.total, self.part = total, part

    @abstractmethod
    def launches(self, first: bool, last: bool) -> Launches:
        """The first slice sets total = part, the next ones total += part, and the last part += total: the sum."""
