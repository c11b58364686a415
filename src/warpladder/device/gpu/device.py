"""`GpuDevice`: NVIDIA GPU of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda

from ...errors import DeviceError, LaunchError, OutOfMemoryError
from .. import Array, Call, KernelSource, Stream
from .driver import call, error
from .kernel import GpuKernel, GpuLaunch
from .memory import GpuAllocation, PinnedMemory
from .program import NvrtcDevice, native
from .properties import capability, limits
from .stream import GpuGraph, GpuStream
from .support import why_not
from .tensor_map import encoded


class GpuDevice(NvrtcDevice):
    """GPU of this machine, by its number, in the primary context, which the process's other libraries share.

    Raises DeviceError: the GPU cannot be used, for the reason of `gpu.why_not()`.
    """

    stream: GpuStream

    def __init__(self, index: int = 0) -> None:
        if reason := why_not(index):
            raise DeviceError(reason)
        handle = call(cuda.cuDeviceGet, index, doing=f"find GPU {index}")
        self.limits, self.capability = limits(handle), capability(handle)
        self.name = self.limits.device
        self.hardware = "{}, compute capability {}.{}".format(self.name, *self.capability)
        self.arch = native(self.capability, self.name)
        self.context = call(cuda.cuDevicePrimaryCtxRetain, handle, doing=f"use {self.name}")
        self.held = {}
        self.events: list[Any] = []  # handles that are free
        self.last: Callable[[], GpuLaunch | None] = lambda: None  # a weak reference to the launch that was sent last
        self._modules: dict[object, Any] = {}
        self._kernels: dict[object, GpuKernel] = {}
        self._pinned = PinnedMemory(self)
        self.stream = GpuStream(self)

    def enter(self) -> None:
        """Make this GPU the target of the calling thread's direct driver calls."""
        call(cuda.cuCtxSetCurrent, self.context, doing=f"use {self.name}")

    def call(self, function: Callable[..., tuple[Any, ...]], *arguments: Any, doing: str) -> Any:
        """Result of a driver call, from any thread; raises its error."""
        cuda.cuCtxSetCurrent(self.context)
        status, *results = function(*arguments)
        if status:
            raise error(status, f"{doing} on {self.name}", self.last())
        return results[0] if len(results) == 1 else tuple(results)

    def forgive(self, function: Callable[..., tuple[Any, ...]], *arguments: Any) -> None:
        """Make a driver call that releases something, and ignore its error, which another call has raised."""
        cuda.cuCtxSetCurrent(self.context)
        function(*arguments)

    def kernel(self, path: Path | str | KernelSource, name: str) -> GpuKernel:
        found = self.program(path, name)
        key = found.key, found.signature.name
        if key not in self._kernels:
            if found.key not in self._modules:
                self._modules[found.key] = self.call(
                    cuda.cuModuleLoadData, found.binary.cubin, doing=f"load {found.source.path.name}"
                )
            function = self.call(
                cuda.cuModuleGetFunction, self._modules[found.key], found.symbol.encode(), doing=f"find kernel {name}"
            )
            self._kernels[key] = GpuKernel(self, found, function)
        return self._kernels[key]

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        array = Array(self, 0, tuple(map(int, shape)), np.dtype(dtype))
        try:
            owner = GpuAllocation(self, array.nbytes, what)
        except OutOfMemoryError:
            raise OutOfMemoryError(self.out_of_memory({what: array.nbytes}, self.free_memory())) from None
        return Array(self, owner.address, array.shape, array.dtype, owner)

    def pinned(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        return self._pinned.array(tuple(map(int, shape)), np.dtype(dtype))

    def fill(self, array: Array, byte: int, stream: Stream | None = None) -> None:
        """Queue the setting of every byte of an array."""
        on = self.on(stream)
        self.check_own(array)
        if array.nbytes:
            self.call(cuda.cuMemsetD8Async, array.address, byte, array.nbytes, on.handle, doing="fill an array")

    def upload(self, array: Array, host: np.ndarray, stream: Stream | None = None) -> None:
        on, address = self.on(stream), self._address(array, host)
        if array.nbytes:
            self.call(cuda.cuMemcpyHtoDAsync, array.address, address, array.nbytes, on.handle, doing="copy to an array")
            if stream is None or not self._pinned.holds(address, array.nbytes):
                on.synchronize()

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        on, address = self.on(stream), self._address(array, host)
        if not host.flags.writeable:
            raise LaunchError("the host's array is read-only, so nothing can be copied to it")
        if array.nbytes:
            self.call(
                cuda.cuMemcpyDtoHAsync, address, array.address, array.nbytes, on.handle, doing="copy from an array"
            )
            if stream is None or not self._pinned.holds(address, array.nbytes):
                on.synchronize()

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        on = self.on(stream)
        self.check_own(target)
        self.check_own(source)
        if target.shape != source.shape or target.dtype != source.dtype:
            raise LaunchError(
                f"cannot copy {source.dtype} {source.shape} to {target.dtype} {target.shape}: must be alike"
            )
        if target.nbytes:
            self.call(
                cuda.cuMemcpyDtoDAsync, target.address, source.address, target.nbytes, on.handle, doing="copy an array"
            )

    def _described(self, array: Array, columns: int, tile: tuple[int, ...], to_tf32: bool) -> np.ndarray:
        return encoded(self, array, columns, tile, to_tf32)

    @cached_property
    def capturing(self) -> GpuStream:
        """Stream on which graphs are recorded."""
        return GpuStream(self)

    def graph(self, calls: list[Call]) -> GpuGraph:
        """Calls as one CUDA graph."""
        kept = list(calls)

        def work(stream: Stream) -> None:
            for each in kept:
                each.send(stream)

        return GpuGraph(self, work)

    def new_stream(self) -> GpuStream:
        return GpuStream(self)

    def synchronize(self) -> None:
        self.call(cuda.cuCtxSynchronize, doing="finish all work")

    def free_memory(self) -> int:
        free, _ = self.call(cuda.cuMemGetInfo, doing="ask for the free memory")
        return int(free)

    def on(self, stream: Stream | None) -> GpuStream:
        """Stream of this GPU: the argument, or the device's own for None. Raises `LaunchError` for a foreign one."""
        if stream is None:
            return self.stream
        if not isinstance(stream, GpuStream) or stream.device is not self:
            raise LaunchError(f"{stream!r} is not a stream of {self.name}")
        return stream

    def _address(self, array: Array, host: np.ndarray) -> int:
        """Address of a host array, checked for copies from or to `array`."""
        self.check_copy(array, host)
        return int(host.__array_interface__["data"][0])
