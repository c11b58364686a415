"""A device that computes nothing and whose clock is made up: a launch takes as long as a test says."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warpladder.device import Array, Device, Event, Kernel, Launch, Limits, Source, Stream
from warpladder.device import source as sources
from warpladder.device.limits import Dim3, Resources
from warpladder.device.signature import Signature, signature

ALIGNED = 512

Cost = Callable[[Launch], float]


class ClockworkEvent(Event):
    def __init__(self, at: float) -> None:
        self.at = at

    def synchronize(self) -> None:
        pass

    def seconds_since(self, earlier: Event) -> float:
        assert isinstance(earlier, ClockworkEvent)
        return self.at - earlier.at


class ClockworkStream(Stream):
    def __init__(self, device: Clockwork) -> None:
        self.device = device

    def record(self) -> Event:
        return ClockworkEvent(self.device.now)

    def wait(self, event: Event) -> None:
        pass

    def synchronize(self) -> None:
        pass


@cache
def declared(path: Path | str, name: str) -> tuple[Source, Signature]:
    """What a file says, and what one of its kernels takes."""
    source = sources.read(path)
    return source, signature(source, name)


class ClockworkLaunch(Launch):
    def send(self, stream: Stream | None = None) -> None:
        device = self.kernel.device
        assert isinstance(device, Clockwork)
        device.now += device.cost(self)
        device.sent += 1


class ClockworkKernel(Kernel):
    def _launch(
        self, grid: Dim3, block: Dim3, shared: int, packed: tuple[Any, ...], arguments: tuple[Any, ...], cooperative: bool, cluster: Dim3
    ) -> ClockworkLaunch:
        return ClockworkLaunch(self, grid, block, shared, cooperative, cluster)


class Clockwork(Device):
    """Launches are checked, and taken for done.

    cost : seconds that a launch takes.
    hardware : as `Device` has it.

    Attributes
    ----------
    now : seconds on its clock.
    sent : launches so far.
    """

    def __init__(
        self, cost: Cost, hardware: str | None = "Clockwork, compute capability 9.0", multiprocessors: int = 132, memory: int = 80 << 30
    ) -> None:
        self.name = "Clockwork"
        self.hardware, self.cost = hardware, cost
        self.limits = Limits(self.name, memory=memory, multiprocessors=multiprocessors)
        self.now, self.sent = 0.0, 0
        self.held = {}
        self.stream = ClockworkStream(self)
        self._next = ALIGNED

    def kernel(self, path: Path | str, name: str) -> Kernel:
        source, takes = declared(path, name)
        return ClockworkKernel(self, source, takes, Resources())

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        owner = Memory()
        array = Array(self, self._next, tuple(map(int, shape)), np.dtype(dtype), owner)
        self.check_room({what: array.nbytes})
        self._next += -(-max(1, array.nbytes) // ALIGNED) * ALIGNED
        self.held[what] = self.held.get(what, 0) + array.nbytes
        weakref.finalize(owner, self._release, array.nbytes, what)
        return array

    def _release(self, size: int, what: str) -> None:
        self.held[what] -= size

    def pinned(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        return np.empty(shape, dtype)

    def fill(self, array: Array, byte: int, stream: Stream | None = None) -> None:
        pass

    def upload(self, array: Array, host: np.ndarray, stream: Stream | None = None) -> None:
        self.check_copy(array, host)

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        raise AssertionError("there is nothing to copy from")

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        pass

    def new_stream(self) -> Stream:
        return ClockworkStream(self)

    def synchronize(self) -> None:
        pass

    def free_memory(self) -> int:
        return self.limits.memory - sum(self.held.values())


class Memory:
    """Stands for memory that is held."""
