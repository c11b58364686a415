"""ReLU as kernels."""

from __future__ import annotations

from pathlib import Path

from ...device import Device
from ...nets import Layer
from ..base import Buffers
from ..grids import flat
from ..kernels import KernelOp, Launches

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveReLU(KernelOp):
    """y may be x, and dx may be dy."""

    def __init__(self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, block_size: int) -> None:
        super().__init__(device, layers, buffers, block_size)
        self.forward_kernel = device.kernel(NAIVE, "relu_forward")
        self.backward_kernel = device.kernel(NAIVE, "relu_backward")

    def forward(self, n: int) -> Launches:
        t = self.buffers
        count = t.x[:n].size
        return [flat(self.forward_kernel, count, self.block_size, t.x, t.y, count)]

    def backward(self, n: int) -> Launches:
        t = self.buffers
        if t.dx is None:
            return []
        count = t.y[:n].size
        return [flat(self.backward_kernel, count, self.block_size, t.y, t.dy, t.dx, count)]
