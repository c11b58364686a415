"""Three ways to the same kernels: CuPy, cuda-core, and warpladder's own devices, of which one is emulated.

An array is one-dimensional. `put` and `get` wait until all is copied; what is queued on a stream waits for nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from warpladder.trainers.kernelwise.where import open_device

SOURCE = Path(__file__).with_name("softmax.cu")
KERNELS = ("outputs", "losses", "mean", "learn", "shorten")


class OwnDevice:
    """warpladder's own device: the GPU (None), or the emulator."""

    def __init__(self, name: str | None) -> None:
        self.device: Any = open_device(name)
        self.stream = self.device.new_stream()

    def new_stream(self) -> Any:
        return self.device.new_stream()

    def empty(self, count: int, dtype: Any) -> Any:
        return self.device.empty((count,), dtype)

    def pinned(self, count: int, dtype: Any) -> np.ndarray:
        return self.device.pinned((count,), dtype)

    def put(self, target: Any, host: np.ndarray) -> None:
        self.device.upload(target, np.ascontiguousarray(host))

    def get(self, source: Any) -> np.ndarray:
        self.stream.synchronize()
        out = np.empty(source.shape, source.dtype)
        self.device.download(out, source)
        return out

    def put_queued(self, target: Any, pinned: np.ndarray, stream: Any) -> None:
        self.device.upload(target, pinned, stream)

    def get_queued(self, pinned: np.ndarray, source: Any, stream: Any) -> None:
        self.device.download(pinned, source, stream)

    def queue(
        self, name: str, threads: int, block: int, arguments: tuple[Any, ...], stream: Any, shared: int = 0
    ) -> None:
        kernel = self.device.kernel(SOURCE, name)
        kernel.bind(-(-threads // block), block, *arguments, shared=shared).send(stream)

    def record(self, stream: Any) -> Any:
        return stream.record()

    def wait(self, stream: Any, event: Any) -> None:
        stream.wait(event)

    def finish(self, stream: Any) -> None:
        stream.synchronize()

    def graph(self, work: Callable[[Any], None]) -> Callable[[Any], None]:
        return work


class CuPy:
    def __init__(self) -> None:
        import cupy

        self.cupy: Any = cupy
        self.module = cupy.RawModule(code=SOURCE.read_text(), options=("--std=c++17",))
        self.kernels = {name: self.module.get_function(name) for name in KERNELS}
        self.stream = self.new_stream()

    def new_stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def empty(self, count: int, dtype: Any) -> Any:
        return self.cupy.empty(count, dtype)

    def pinned(self, count: int, dtype: Any) -> np.ndarray:
        memory = self.cupy.cuda.alloc_pinned_memory(max(1, count * np.dtype(dtype).itemsize))
        return np.frombuffer(memory, dtype, count)

    def put(self, target: Any, host: np.ndarray) -> None:
        target.set(np.ascontiguousarray(host), stream=self.stream)
        self.stream.synchronize()

    def get(self, source: Any) -> np.ndarray:
        out = np.empty(source.shape, source.dtype)
        source.get(stream=self.stream, out=out)
        self.stream.synchronize()
        return out

    def put_queued(self, target: Any, pinned: np.ndarray, stream: Any) -> None:
        target.set(pinned, stream=stream)

    def get_queued(self, pinned: np.ndarray, source: Any, stream: Any) -> None:
        self.cupy.cuda.runtime.memcpyAsync(pinned.ctypes.data, source.data.ptr, source.nbytes, 2, stream.ptr)

    def queue(
        self, name: str, threads: int, block: int, arguments: tuple[Any, ...], stream: Any, shared: int = 0
    ) -> None:
        numbers = tuple(np.int32(each) if isinstance(each, (int, np.integer)) else each for each in arguments)
        with stream:
            self.kernels[name]((-(-threads // block),), (block,), numbers, shared_mem=shared)

    def record(self, stream: Any) -> Any:
        return stream.record()

    def wait(self, stream: Any, event: Any) -> None:
        stream.wait_event(event)

    def finish(self, stream: Any) -> None:
        stream.synchronize()

    def graph(self, work: Callable[[Any], None]) -> Callable[[Any], None]:
        stream = self.new_stream()
        with stream:
            stream.begin_capture()
            work(stream)
            graph = stream.end_capture()
        return lambda stream: graph.launch(stream)


class CudaCore:
    """cuda-core: its arrays are buffers, next to which stand count and dtype."""

    def __init__(self) -> None:
        try:
            from cuda import core
        except ImportError:
            core = SimpleNamespace()
        if not hasattr(core, "Program"):
            from cuda.core import experimental as core
        self.core: Any = core
        self.device: Any = core.Device()
        self.device.set_current()
        self.stream = self.new_stream()
        options = core.ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}")
        compiled = core.Program(SOURCE.read_text(), "c++", options).compile("cubin")
        self.kernels = {name: compiled.get_kernel(name) for name in KERNELS}
        self.host = core.LegacyPinnedMemoryResource()
        self.pages: dict[int, Any] = {}

    def new_stream(self) -> Any:
        return self.device.create_stream()

    def empty(self, count: int, dtype: Any) -> Any:
        size = max(1, count * np.dtype(dtype).itemsize)
        buffer = self.device.allocate(size, stream=self.stream)
        self.stream.sync()
        return SimpleNamespace(buffer=buffer, count=count, dtype=np.dtype(dtype))

    def pinned(self, count: int, dtype: Any) -> np.ndarray:
        size = max(1, count * np.dtype(dtype).itemsize)
        buffer = self.host.allocate(size, stream=self.stream)
        memory = (ctypes.c_char * size).from_address(int(buffer.handle))
        found = np.frombuffer(memory, dtype, count)
        self.pages[found.ctypes.data] = buffer
        return found

    def put(self, target: Any, host: np.ndarray) -> None:
        pinned = self.pinned(target.count, target.dtype)
        pinned[...] = host
        self.put_queued(target, pinned, self.stream)
        self.stream.sync()
        del self.pages[pinned.ctypes.data]

    def get(self, source: Any) -> np.ndarray:
        pinned = self.pinned(source.count, source.dtype)
        self.get_queued(pinned, source, self.stream)
        self.stream.sync()
        out = pinned.copy()
        del self.pages[pinned.ctypes.data]
        return out

    def put_queued(self, target: Any, pinned: np.ndarray, stream: Any) -> None:
        self.device.set_current()  # a thread of its own may ask
        target.buffer.copy_from(self.pages[pinned.ctypes.data], stream=stream)

    def get_queued(self, pinned: np.ndarray, source: Any, stream: Any) -> None:
        self.device.set_current()
        source.buffer.copy_to(self.pages[pinned.ctypes.data], stream=stream)

    def queue(
        self, name: str, threads: int, block: int, arguments: tuple[Any, ...], stream: Any, shared: int = 0
    ) -> None:
        self.device.set_current()
        config = self.core.LaunchConfig(grid=-(-threads // block), block=block, shmem_size=shared)
        numbers = [np.int32(each) if isinstance(each, (int, np.integer)) else each.buffer for each in arguments]
        self.core.launch(stream, config, self.kernels[name], *numbers)

    def record(self, stream: Any) -> Any:
        return stream.record()

    def wait(self, stream: Any, event: Any) -> None:
        stream.wait(event)

    def finish(self, stream: Any) -> None:
        stream.sync()

    def graph(self, work: Callable[[Any], None]) -> Callable[[Any], None]:
        builder = self.new_stream().create_graph_builder()
        builder.begin_building()
        work(builder)
        graph = builder.end_building().complete()
        return lambda stream: graph.launch(stream)


@cache
def runtime(name: str) -> Any:
    """Runtime of a name, one for the process."""
    if name in ("emulated", "own"):
        return OwnDevice("emulated" if name == "emulated" else None)
    return CuPy() if name == "cupy" else CudaCore()


RUNTIMES = ("cupy", "core", "own", "emulated")
