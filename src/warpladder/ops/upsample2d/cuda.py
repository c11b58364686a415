"""Nearest-neighbour enlargement as kernels."""

from __future__ import annotations

from pathlib import Path

from ...device import Device
from ...nets import Layer, Upsample2d
from ..base import Buffers
from ..grids import by_sample
from ..kernels import KernelOp, Launches

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveUpsample2d(KernelOp):
    """One thread for each number of y and dx."""

    def __init__(self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, block_size: int) -> None:
        super().__init__(device, layers, buffers, block_size)
        (layer,) = layers
        assert isinstance(layer, Upsample2d)
        self.scale = layer.scale_factor
        _, self.c, self.h, self.w = buffers.x.shape
        self.size = self.c * self.h * self.w
        self.forward_kernel = device.kernel(NAIVE, "upsample2d_forward")
        self.backward_kernel = device.kernel(NAIVE, "upsample2d_backward")

    def forward(self, n: int) -> Launches:
        t, outputs = self.buffers, self.size * self.scale**2
        return [by_sample(self.forward_kernel, outputs, n, self.block_size, t.x, t.y, outputs, n, self.c, self.h, self.w, self.scale)]

    def backward(self, n: int) -> Launches:
        t = self.buffers
        if t.dx is None:
            return []
        return [by_sample(self.backward_kernel, self.size, n, self.block_size, t.dy, t.dx, self.size, n, self.h, self.w, self.scale)]
