"""Clipping of all gradients of a step to an L2 norm, as kernels."""

from pathlib import Path

import numpy as np

from ...device import Array, Device
from ..engine.kernels import Launches, OnDevice, ceil_div

FILE = Path(__file__).with_name("norm.cu")
#: Most blocks: each reads all their sums.
BLOCKS = 256


class NormClip(OnDevice):
    """Clipping to an L2 norm: sums of squares by block, then their total in every block, which scales its gradients.

    grads : flat float32 array of all gradients. limit : largest L2 norm.
    """

    def __init__(self, device: Device, grads: Array, limit: float, block_size: int) -> None:
        super().__init__(device, block_size)
        self.grads, self.limit = grads, limit
        self.squares, self.scale = (device.kernel(FILE, name) for name in ("norm_squares", "norm_scale"))
        self.blocks = min(BLOCKS, ceil_div(grads.size, block_size))
        self.parts = self.scratch((self.blocks,), np.float64)

    def launches(self) -> Launches:
        """Launches that scale the gradients in place."""
        grid, shared = (self.blocks, self.block_size), (self.grads, self.parts, self.grads.size)
        return [self.squares.bind(*grid, *shared), self.scale.bind(*grid, *shared, self.limit)]
