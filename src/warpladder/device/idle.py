"""`IdleDevice`: what devices share on which nothing runs, be it that they only compile and check or that they only
look.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from ..errors import DeviceError
from .array import Array
from .base import Device, Event, Stream

#: Every array's address is a multiple of ALIGNED, as on a GPU.
ALIGNED = 512


class IdleEvent(Event):
    """A moment on a stream on which nothing happens."""

    def synchronize(self) -> None:
        pass

    def seconds_since(self, earlier: Event) -> float:
        raise DeviceError("nothing runs on this device, so no time passes")


class IdleStream(Stream):
    """A stream on which nothing is ever queued, so that there is nothing to wait for."""

    def record(self) -> Event:
        return IdleEvent()

    def wait(self, event: Event) -> None:
        pass

    def synchronize(self) -> None:
        pass


class IdleDevice(Device):
    """Arrays have addresses and no contents: what is uploaded is dropped, and nothing can be downloaded. Their memory
    is counted.
    """

    _next = ALIGNED  # the address of the array to come

    def place(self, shape: tuple[int, ...], dtype: Any, owner: object) -> Array:
        """An array at an address of its own; `owner` lives as long as the array."""
        array = Array(self, self._next, tuple(map(int, shape)), np.dtype(dtype), owner)
        self._next += -(-max(1, array.nbytes) // ALIGNED) * ALIGNED
        return array

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        size, owner = math.prod(shape) * np.dtype(dtype).itemsize, Memory()
        self.check_room({what: size})
        self.held[what] = self.held.get(what, 0) + size
        weakref.finalize(owner, self._release, size, what)
        return self.place(shape, dtype, owner)

    def _release(self, size: int, what: str) -> None:
        self.held[what] -= size

    def pinned(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        return np.empty(shape, dtype)

    def fill(self, array: Array, byte: int, stream: Stream | None = None) -> None:
        pass

    def upload(self, array: Array, host: np.ndarray, stream: Stream | None = None) -> None:
        self.check_copy(array, host)

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        raise DeviceError(f"nothing runs on {self.name}: its arrays hold nothing that could be copied from them")

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        self.check_own(target)
        self.check_own(source)

    def new_stream(self) -> Stream:
        return IdleStream()

    def synchronize(self) -> None:
        pass

    def free_memory(self) -> int:
        return self.limits.memory - sum(self.held.values())


class Memory:
    """Stands for memory that is held."""
