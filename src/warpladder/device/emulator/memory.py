"""Memory of the emulated device: host memory at multiples of 256, registered with the checker."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import EmulatedDevice


class EmulatedAllocation:
    """Memory of `size` bytes, freed with its last reference. Raises `MemoryError` if too few bytes are free.

    element : bytes of a number, the resolution at which the checker distinguishes accesses.
    """

    def __init__(self, device: EmulatedDevice, size: int, element: int, what: str) -> None:
        self.runtime, self.held, self.size, self.what = device.runtime, device.held, size, what
        self.address = self.runtime.emu_allocate(size, min(element, 4)) or 0
        if not self.address:
            raise MemoryError
        self.held[what] = self.held.get(what, 0) + size

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self.runtime.emu_free(self.address, self.size)
            self.held[self.what] -= self.size
            if not self.held[self.what]:
                del self.held[self.what]
            self.address = 0


def free() -> int:
    """Bytes of free memory of this machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def total() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def fill(address: int, byte: int, size: int) -> None:
    ctypes.memset(address, byte, size)


def copy(target: int, source: int, size: int) -> None:
    ctypes.memmove(target, source, size)
