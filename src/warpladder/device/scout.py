"""`Scout`: stands for a device while it is found out which kernels somebody will ask of it. Nothing is compiled,
allocated or run.

A compiler that knows all of them beforehand can work on all of them at once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import source as sources
from .array import Array
from .base import Device, Stream
from .idle import IdleDevice, IdleStream
from .kernel import Kernel, Launch
from .limits import Dim3, Resources
from .signature import Signature, signature
from .source import Source

declared = cache(signature)


class ScoutLaunch(Launch):
    """A launch that does nothing."""

    def send(self, stream: Stream | None = None) -> None:
        pass


class ScoutKernel(Kernel):
    """A kernel of which only the signature is known."""

    def blocks_at_once(self, block: Dim3, shared: int) -> int:
        """Any number: what it decides is checked where it runs."""
        return self.device.limits.grid[0]

    def _launch(
        self,
        grid: Dim3,
        block: Dim3,
        shared: int,
        packed: tuple[Any, ...],
        arguments: tuple[Any, ...],
        cooperative: bool,
        cluster: Dim3,
    ) -> ScoutLaunch:
        return ScoutLaunch(self, grid, block, shared, cooperative, cluster)


class Scout(IdleDevice):
    """Has a device's limits, and notes which kernels it is asked for.

    Parameters
    ----------
    device : Device
        Whose place it takes.

    Attributes
    ----------
    asked : dict
        The kernels by file and name, in the order in which they were asked for first.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name, self.limits, self.hardware = device.name, device.limits, device.hardware
        self.capability = device.capability
        self.stream = IdleStream()
        self.held = {}
        self.asked: dict[tuple[Path, str], None] = {}

    def kernel(self, path: Path | str, name: str) -> ScoutKernel:
        source: Source = sources.read(path)
        takes: Signature = declared(source, name)
        self.asked.setdefault((source.path, name))
        return ScoutKernel(self, source, takes, Resources())

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        return self.place(shape, dtype, self)

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        """Nothing: whoever looks for kernels does not look at numbers."""

    def free_memory(self) -> int:
        return self.device.free_memory()
