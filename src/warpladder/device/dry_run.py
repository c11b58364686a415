"""Dry runs: devices that run nothing and drop uploads, and `kernels_of`, the kernels that some work needs."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DeviceError
from . import source as sources
from .array import Array
from .base import Device, Event, Stream
from .declarations import signature
from .kernel import Kernel, Launch
from .limits import Dim3, LaunchConfig, Resources
from .source import KernelSource

#: Every array's address is a multiple of ALIGNED, as on a GPU.
ALIGNED = 512


class IdleEvent(Event):
    """Event on a stream that runs nothing."""

    def synchronize(self) -> None:
        pass

    def seconds_since(self, earlier: Event) -> float:
        raise DeviceError("nothing runs on this device, so no time passes")


class IdleStream(Stream):
    """Stream that queues nothing."""

    def record(self) -> Event:
        return IdleEvent()

    def wait(self, event: Event) -> None:
        pass

    def synchronize(self) -> None:
        pass


class IdleAllocation:
    """Owner of an array without memory: its bytes are counted while it lives."""


class IdleDevice(Device):
    """Device that runs nothing. Its memory is counted but never allocated; nothing can be downloaded."""

    _next = ALIGNED  # address of the next array

    def place(self, shape: tuple[int, ...], dtype: Any, owner: object) -> Array:
        """Array at an unused address; `owner` lives as long as the array."""
        array = Array(self, self._next, tuple(map(int, shape)), np.dtype(dtype), owner)
        self._next += -(-max(1, array.nbytes) // ALIGNED) * ALIGNED
        return array

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        size, owner = math.prod(shape) * np.dtype(dtype).itemsize, IdleAllocation()
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
        raise DeviceError(f"nothing runs on {self.name}: its arrays have no contents to copy")

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        self.check_own(target)
        self.check_own(source)

    def new_stream(self) -> Stream:
        return IdleStream()

    def synchronize(self) -> None:
        pass

    def free_memory(self) -> int:
        return self.limits.memory - sum(self.held.values())


class RecordedLaunch(Launch):
    """Launch that does nothing."""

    def send(self, stream: Stream | None = None) -> None:
        pass


class RecordedKernel(Kernel):
    """Kernel with only a signature."""

    def blocks_at_once(self, block: Dim3, shared: int) -> int:
        """Number of blocks without limit: the device that runs the kernel checks it."""
        return self.device.limits.grid[0]

    def _launch(self, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]) -> RecordedLaunch:
        return RecordedLaunch(self, config)


class RecordingDevice(IdleDevice):
    """Device with another device's limits that compiles nothing; `requested` has kernels by file and name, in order."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name, self.limits, self.hardware = device.name, device.limits, device.hardware
        self.capability = device.capability
        self.stream = IdleStream()
        self.held = {}
        self.requested: dict[tuple[Path | KernelSource, str], None] = {}

    def kernel(self, path: Path | str | KernelSource, name: str) -> RecordedKernel:
        source = sources.read(path)
        takes = signature(source, name)
        self.requested.setdefault((source if isinstance(path, KernelSource) else source.path, name))
        return RecordedKernel(self, source, takes, Resources())

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        return self.place(shape, dtype, self)

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        """Do nothing: a dry run reads no numbers."""

    def free_memory(self) -> int:
        return self.device.free_memory()


def kernels_of(device: Device, work: Callable[[Device], object]) -> list[tuple[Path | KernelSource, str]]:
    """Kernels that `work` needs, by file and name, in order; an error ends the dry run without being raised."""
    recorder = RecordingDevice(device)
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        work(recorder)
    return list(recorder.requested)
