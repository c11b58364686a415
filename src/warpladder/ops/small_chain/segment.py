"""Base of segments that are linear layers, functions of one number and a loss, and update their parameters."""

from __future__ import annotations

import numpy as np

from ...device import Array
from ..engine.kernels import Log
from ..loss import scalar
from ..update.stepped import StepsInPlace
from .links import Links


class ChainSegment(StepsInPlace):
    """Base of segments whose second launch finishes all gradients. setting : the loss's number for each output, or
    None.
    """

    cost = 2
    links: Links
    log: Log

    def bind_settings(self, found: Links) -> None:
        """Set links, log, setting, optimizer and row."""
        log = self.operands.log
        assert log is not None
        self.links, self.log = found, log
        self.bind_step()
        numbers = scalar.settings(found.loss, found.outputs).astype(np.float32)
        self.setting = self.device.array(numbers, "workspace") if found.has_settings else None
        self.workspace += numbers.nbytes if found.has_settings else 0

    def trained(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Arrays of the layers' weights and biases, given in order, without those of layers that have no bias."""
        has = [each for has_bias in self.links.has_bias[1:] for each in (True, has_bias)]
        return tuple(array for array, there in zip(arrays, has, strict=True) if there)
