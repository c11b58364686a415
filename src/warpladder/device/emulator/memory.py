"""Memory of an emulated device: the host's, at addresses that 256 divides, known to the checker."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import EmulatedDevice


class Allocation:
    """Memory that lives as long as somebody refers to it.

    Parameters
    ----------
    device : EmulatedDevice
    size : int
        In bytes.
    element : int
        Bytes of a number; the checker tells accesses apart that are so far from each other.
    what : str
        What it is for.

    Raises
    ------
    MemoryError
        Where the system gives none.
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
    """Bytes that this machine can still give."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def total() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def fill(address: int, byte: int, size: int) -> None:
    ctypes.memset(address, byte, size)


def copy(target: int, source: int, size: int) -> None:
    ctypes.memmove(target, source, size)
