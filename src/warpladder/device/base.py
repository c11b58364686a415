"""`Device`: memory, kernels, streams and events. Its implementations are a GPU and the emulator."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LaunchError, OutOfMemoryError
from ..machine.peaks import Capability
from .array import Array
from .kernel import Call, Kernel
from .limits import Limits
from .source import KernelSource
from .tensormap import ROW, WORDS, TensorMap, check_map

#: A function that returns kernels by file and name; and a function that shows a line of text, or None.
FindKernels = Callable[[], Iterable[tuple[Path | KernelSource, str]]]
Say = Callable[[str], None] | None


class Event(ABC):
    """Point in the work of a stream."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the work before the event is done."""

    @abstractmethod
    def seconds_since(self, earlier: Event) -> float:
        """Seconds between two events, both of which have happened."""


class Stream(ABC):
    """Work that runs in order, and may overlap with the work of other streams."""

    @abstractmethod
    def record(self) -> Event:
        """Event recorded after all work that is queued so far."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Make work that is queued from now on wait for an event of another stream; the host does not wait."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all queued work is done, and raise its errors."""


class Graph(ABC):
    """Calls that are queued together, by one call."""

    @abstractmethod
    def send(self, stream: Stream | None = None) -> None:
        """Queue all calls of the graph, in their order, on a stream or on the device's own."""


class CallSequence(Graph):
    """Calls queued one by one: the graph of a device without native graphs."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls

    def send(self, stream: Stream | None = None) -> None:
        for call in self.calls:
            call.send(stream)


class Device(ABC):
    """Device that runs kernels.

    stream : default stream. held : allocated bytes by purpose. name : name in messages.
    hardware : name and compute capability, for which times measured on it hold; None if its times mean nothing.
    capability : compute capability (major, minor) for which kernels are compiled; None if kernels for every GPU run.
    """

    hardware: str | None = None
    capability: Capability | None = None
    name: str
    limits: Limits
    stream: Stream
    held: dict[str, int]

    @abstractmethod
    def kernel(self, path: Path | str | KernelSource, name: str) -> Kernel:
        """Compiled kernel of a .cu file or source; the name of a template includes its arguments: "tiled<16, true>"."""

    @contextmanager
    def precompiling(self, find: FindKernels, say: Say = None) -> Iterator[None]:
        """Context in which the first kernel that is not compiled may be compiled concurrently with others.

        find : called at most once; returns the kernels, by file and name, that will be requested. say : called with
        messages.
        """
        yield

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        """Uninitialised array, freed with its last reference; `what` is its name in messages and in `held`."""

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        """Array of zeros; `what` is its name in messages and in `held`."""
        out = self.empty(shape, dtype, what)
        self.fill(out, 0)
        return out

    def array(self, host: np.ndarray, what: str = "buffer") -> Array:
        """Copy of a host array in the device's memory."""
        out = self.empty(host.shape, host.dtype, what)
        self.upload(out, host)
        return out

    @abstractmethod
    def pinned(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        """Page-locked host array, which can be copied while the host runs other work."""

    @abstractmethod
    def fill(self, array: Array, byte: int, stream: Stream | None = None) -> None:
        """Set every byte of an array to `byte`, queued."""

    @abstractmethod
    def upload(self, array: Array, host: np.ndarray, stream: Stream | None = None) -> None:
        """Copy a host array of equal shape and dtype to the device; only queued if it is pinned and has a stream."""

    @abstractmethod
    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        """Copy an array to a host array of equal shape and dtype; only queued if it is pinned and has a stream."""

    @abstractmethod
    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        """Copy an array to another one in the device's memory, queued."""

    def tensor_map(
        self, array: Array, rows: int | tuple[int, int, int], columns: int | None = None, to_tf32: bool = False
    ) -> TensorMap:
        """Tensor map for kernels that copy tiles of rows of 128 bytes by the copy engine (TMA, compute capability 9.0).

        array : (rows, pitch) of 16 or 32 bits, rows at multiples of 16 bytes; or (images, rows, columns, channels).
        rows : rows of a tile, 1 to 256; or images, rows and columns of a tile of images, 1 to 256 pixels in all.
        columns : columns, or channels of a pixel, that belong to the matrix (default: all); others are copied as zeros.
        to_tf32 : True to round floats to the nearest tf32.
        Raises LaunchError: the copy engine cannot copy tiles of this matrix.
        """
        self.check_own(array)
        width = array.shape[-1] if columns is None else columns
        down = (rows,) if isinstance(rows, int) else rows
        check_map(array, width, down, to_tf32)
        tile = *down, ROW // array.dtype.itemsize
        return TensorMap(array, width, tile, to_tf32, self._described(array, width, tile, to_tf32))

    def _described(self, array: Array, columns: int, tile: tuple[int, ...], to_tf32: bool) -> np.ndarray:
        """Words of a tensor map, uint64, in the device's own format; zeros on a device that runs nothing."""
        return np.zeros(WORDS, np.uint64)

    @abstractmethod
    def new_stream(self) -> Stream:
        """New stream of the device, whose launches run concurrently with those of other streams."""

    def graph(self, calls: list[Call]) -> Graph:
        """Graph of calls, which can be queued any number of times; on a GPU a CUDA graph."""
        return CallSequence(list(calls))

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all work on the device is done, and raise its errors."""

    @abstractmethod
    def free_memory(self) -> int:
        """Free bytes of the device's memory, as far as known."""

    def check_own(self, array: Array) -> None:
        """Raise `LaunchError` if an array is in another device's memory."""
        if array.device is not self:
            raise LaunchError(f"an array of {array.device.name} is not in the memory of {self.name}")

    def check_copy(self, array: Array, host: np.ndarray) -> None:
        """Raise `LaunchError` if an array and a host array cannot be copied to each other."""
        self.check_own(array)
        if host.shape != array.shape or host.dtype != array.dtype:
            raise LaunchError(
                f"the host's array is {host.dtype} {host.shape}, and the device's {array.dtype} {array.shape}: "
                "they must be alike"
            )
        if not host.flags.c_contiguous:
            raise LaunchError("the host's array is not contiguous: numpy.ascontiguousarray makes it so")

    def check_room(self, needs: Mapping[str, int]) -> None:
        """Raise `OutOfMemoryError` if buffers of these sizes in bytes do not fit; the message lists the largest."""
        free = self.free_memory()
        if sum(needs.values()) > free:
            raise OutOfMemoryError(self.out_of_memory(needs, free))

    def out_of_memory(self, needs: Mapping[str, int], free: int) -> str:
        """Message with the bytes that each buffer needs, and the free bytes."""
        largest = sorted(needs.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{what} {megabytes(size)}" for what, size in largest[:8])
        more = f" and {len(largest) - 8} smaller ones" if len(largest) > 8 else ""
        return (
            f"{self.name} has {megabytes(free)} of memory free, and this needs {megabytes(sum(needs.values()))} more: "
            f"{shown}{more}. A smaller batch needs less"
        )

    def close(self) -> None:
        """Release the device's resources."""


def megabytes(size: int) -> str:
    """Text of a number of bytes, as "12.3 MB"."""
    return f"{size / 1e6:,.1f} MB" if math.isfinite(size) else "any amount"
