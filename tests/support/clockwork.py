"""A device that computes nothing and whose clock is made up: a launch takes as long as a test says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warpladder.device import Array, Event, Kernel, KernelSource, Launch, Limits, Stream
from warpladder.device import source as sources
from warpladder.device.declarations import signature
from warpladder.device.dry_run import IdleDevice
from warpladder.device.limits import LaunchConfig, Resources
from warpladder.device.signature import Signature

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
def declared(path: Path | str | KernelSource, name: str) -> tuple[KernelSource, Signature]:
    """What a file says, and what one of its kernels takes."""
    source = path if isinstance(path, KernelSource) else sources.read(path)
    return source, signature(source, name)


class ClockworkLaunch(Launch):
    def send(self, stream: Stream | None = None) -> None:
        device = self.kernel.device
        assert isinstance(device, Clockwork)
        device.now += device.cost(self)
        device.sent += 1


class ClockworkKernel(Kernel):
    def _launch(self, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]) -> ClockworkLaunch:
        return ClockworkLaunch(self, config)


class Clockwork(IdleDevice):
    """Launches are checked, and taken for done.

    cost : seconds that a launch takes.
    hardware : as `Device` has it.

    Attributes
    ----------
    now : seconds on its clock.
    sent : launches so far.
    """

    def __init__(
        self,
        cost: Cost,
        hardware: str | None = "Clockwork, compute capability 9.0",
        multiprocessors: int = 132,
        memory: int = 80 << 30,
    ) -> None:
        self.name = "Clockwork"
        self.hardware, self.cost = hardware, cost
        self.limits = Limits(self.name, memory=memory, multiprocessors=multiprocessors)
        self.now, self.sent = 0.0, 0
        self.held = {}
        self.stream = ClockworkStream(self)

    def kernel(self, path: Path | str | KernelSource, name: str) -> Kernel:
        source, takes = declared(path, name)
        return ClockworkKernel(self, source, takes, Resources())

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        host[...] = 0

    def new_stream(self) -> Stream:
        return ClockworkStream(self)
