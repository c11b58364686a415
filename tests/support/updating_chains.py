"""Segments that update their own parameters at the end of their backward pass, for tests of chains and streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpladder.device import Device
from warpladder.nets import Linear
from warpladder.ops.engine.chain import Slice, Subgraph
from warpladder.ops.engine.kernels import Launches
from warpladder.ops.engine.segments import KernelTable, Operands
from warpladder.ops.linear.cuda import NaiveLinear
from warpladder.ops.tables import naive
from warpladder.optimizers import SGD


class UpdatingLinear(NaiveLinear):
    """The naive rung's Linear, but that some layers end their way back with the optimizer's step on their own
    parameters.
    """

    numbers: tuple[int, ...] = ()

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.update, config = operands.update, subgraph.config
        if self.update is not None:
            assert config is not None
            self.made_with = device.array(config.numbers(0, 1, 1).astype(np.float32))  # of every step

    @classmethod
    def updates_in_place(cls, subgraph: Subgraph) -> bool:
        config = subgraph.config
        steady = config is not None and isinstance(config.optimizer, SGD) and config.steady
        return steady and subgraph.layers_at.start in cls.numbers

    def backward(self, part: Slice) -> Launches:
        found = super().backward(part)
        return found + (self.update.launches(self.made_with, None) if self.update is not None and part.is_whole else [])


def updating(*numbers: int) -> KernelTable:
    """A table whose linear layers of these numbers in the net update themselves."""
    kind = type("Updating", (UpdatingLinear,), {"numbers": numbers})
    return replace(naive.TABLE, segments={**naive.TABLE.segments, (Linear,): kind})
