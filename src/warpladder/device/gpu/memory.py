"""Memory of a GPU, and page-locked memory of the host. Each is released with its last reference.

Memory is allocated without a pool: all of it is allocated before training begins, its release waits for the kernels
that still use it, and compute-sanitizer finds each array's bounds.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda

if TYPE_CHECKING:
    from .device import GpuDevice


class GpuAllocation:
    """Allocation on the GPU, counted in the device's `held` under its purpose."""

    def __init__(self, device: GpuDevice, size: int, what: str) -> None:
        self.address = int(device.call(cuda.cuMemAlloc, max(size, 1), doing=f"allocate {size:,} bytes ({what})"))
        device.held[what] = device.held.get(what, 0) + size
        release = weakref.finalize(self, _release, device, self.address, size, what)
        release.atexit = False  # the end of the process releases everything


def _release(device: GpuDevice, address: int, size: int, what: str) -> None:
    device.forgive(cuda.cuMemFree, address)
    device.held[what] -= size


class PinnedMemory:
    """Page-locked ranges of host memory, and NumPy arrays over them."""

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self.ranges: dict[int, int] = {}  # first and last + 1

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Uninitialised array in new page-locked memory."""
        count = math.prod(shape)
        size = max(1, count * dtype.itemsize)
        doing = f"allocate {size:,} bytes of page-locked memory"
        address = int(self.device.call(cuda.cuMemHostAlloc, size, 0, doing=doing))
        self.ranges[address] = address + size
        block: Any = (ctypes.c_uint8 * size).from_address(address)
        release = weakref.finalize(block, self._release, address)
        release.atexit = False
        return np.frombuffer(block, dtype, count).reshape(shape)

    def holds(self, address: int, size: int) -> bool:
        """True if these bytes are page-locked."""
        return any(first <= address and address + size <= last for first, last in self.ranges.items())

    def _release(self, address: int) -> None:
        del self.ranges[address]
        self.device.forgive(cuda.cuCtxSynchronize)  # a copy from it may be under way
        self.device.forgive(cuda.cuMemFreeHost, address)
