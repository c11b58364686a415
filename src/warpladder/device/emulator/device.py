"""`EmulatedDevice`: unmodified kernels on the CPU, fast or with every access checked."""

from __future__ import annotations

import ctypes
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ...errors import ConfigError, DeviceError, LaunchError, OutOfMemoryError
from ...machine.facts import cores
from .. import Array, Event, KernelSource, Launch, Limits, Stream
from .. import source as sources
from ..declarations import signature
from ..precompile import PrecompilingDevice
from ..tensormap import WORDS, axes
from . import memory
from .kernel import ORDERS, EmulatedKernel, EmulatedLaunch
from .memory import EmulatedAllocation
from .module import EmulatedUnit, function, runtime_of, unit
from .reports import Report, read
from .toolchain import MODES, compiler, folder

#: Attempts to find where a running launch is.
ATTEMPTS = 20
#: First word of a tensor map of the emulator (headers/interface.h).
MAP_MARK = 0x70616D5F756D65


class EmulatedEvent(Event):
    """Event with the host's time: work is done as soon as it is queued."""

    def __init__(self) -> None:
        self.at = perf_counter()

    def synchronize(self) -> None:
        pass

    def seconds_since(self, earlier: Event) -> float:
        assert isinstance(earlier, EmulatedEvent)
        return self.at - earlier.at


class EmulatedStream(Stream):
    """Stream without a queue: work runs when it is queued."""

    def record(self) -> Event:
        return EmulatedEvent()

    def wait(self, event: Event) -> None:
        pass

    def synchronize(self) -> None:
        pass


class EmulatedDevice(PrecompilingDevice[EmulatedUnit]):
    """Device that runs .cu files on the CPU: a fiber for each waiting thread, blocks spread over the cores.

    mode : "fast" finds impossible barriers and warp collectives; "check" watches every access (docs/emulator.md);
    "asan" is AddressSanitizer and UBSan, in processes started by `emulator.asan`; "count" checks accesses and counts
    the warps' instructions (`counts`).
    order : "forward", "reverse" or "random" order in which threads and blocks start and continue.
    threads : OS threads that share the blocks in the fast mode; None takes every core.
    collect : collect faults in `reports` instead of raising `KernelError`. `remarks` has what is no fault.
    watched : allow `stuck` during a launch; in the fast mode shared memory then begins as NaN and -1, not with old
    content.
    local : content of local variables without a value: "" (undefined), "zero", or a fixed "pattern".
    Raises DeviceError: no compiler is installed.
    """

    def __init__(
        self, mode: str = "fast", order: str = "forward", seed: int = 0, threads: int | None = None,
        collect: bool = False, watched: bool = False, local: str = "",
    ) -> None:  # fmt: skip
        if mode not in MODES:
            raise ConfigError(f"the emulator has the modes {', '.join(MODES)}, and not {mode!r}")
        if order not in ORDERS:
            raise ConfigError(f"the emulator runs threads in the orders {', '.join(ORDERS)}, and not {order!r}")
        if threads is not None and threads < 1:
            raise ConfigError(f"the emulator needs at least one thread, got {threads}")
        compiler()
        if mode == "asan" and not hasattr(ctypes.CDLL(None), "__asan_init"):
            start = "python -m warpladder.device.emulator.asan SCRIPT"
            raise DeviceError(f"the asan mode needs the sanitizers in the process before Python starts: {start}")
        self.mode, self.order, self.seed = mode, order, seed
        self.collect, self.watched, self.local = collect, watched, local
        self.threads = (threads or cores()) if mode == "fast" else 1
        self.name = "the emulator"
        self.limits = Limits(self.name, memory=memory.total())
        self.stream = EmulatedStream()
        self.held: dict[str, int] = {}
        self.reports: list[Report] = []
        self.remarks: list[Report] = []
        self.adopted: dict[int, tuple[Array, int]] = {}
        self._kernels: dict[tuple[str, str], EmulatedKernel] = {}

    @cached_property
    def runtime(self) -> ctypes.CDLL:
        """Library that allocates memory and runs launches; the first use compiles it, which takes seconds."""
        return runtime_of(self.mode)

    def kernel(self, path: Path | str | KernelSource, name: str) -> EmulatedKernel:
        source = sources.read(path)
        takes = signature(source, name)
        key = source.digest, takes.name
        if key not in self._kernels:
            self.precompile(source, takes.name)
            compiled = function(source, takes.name, self.mode, self.local)
            self._kernels[key] = EmulatedKernel(self, source, takes, compiled)
        return self._kernels[key]

    def unit(self, source: KernelSource, name: str) -> EmulatedUnit:
        return unit(source, name)

    def is_compiled(self, unit: EmulatedUnit) -> bool:
        return unit.is_compiled(self.mode, self.local)

    def compile_unit(self, unit: EmulatedUnit) -> Path:
        return unit.library(self.mode, self.local)

    @property
    def compiled_folder(self) -> Path | None:
        return folder()

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32, what: str = "buffer") -> Array:
        sizes, kind = tuple(map(int, shape)), np.dtype(dtype)
        array = Array(self, 0, sizes, kind)
        try:
            if array.nbytes > memory.free():
                raise MemoryError
            element = min(kind[field].itemsize for field in kind.names) if kind.names else kind.itemsize
            owner = EmulatedAllocation(self, array.nbytes, element, what)
        except MemoryError:
            raise OutOfMemoryError(self.out_of_memory({what: array.nbytes}, self.free_memory())) from None
        return Array(self, owner.address, sizes, kind, owner)

    def pinned(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        return np.empty(shape, dtype)

    def fill(self, array: Array, byte: int, stream: Stream | None = None) -> None:
        self.check_own(array)
        memory.fill(array.address, byte, array.nbytes)
        self.runtime.emu_written(array.address, array.nbytes)

    def upload(self, array: Array, host: np.ndarray, stream: Stream | None = None) -> None:
        self.check_copy(array, host)
        memory.copy(array.address, host.ctypes.data, array.nbytes)
        self.runtime.emu_written(array.address, array.nbytes)

    def download(self, host: np.ndarray, array: Array, stream: Stream | None = None) -> None:
        self.check_copy(array, host)
        if not host.flags.writeable:
            raise LaunchError("the host's array is read-only, so nothing can be copied to it")
        memory.copy(host.ctypes.data, array.address, array.nbytes)

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        self.check_own(target)
        self.check_own(source)
        if target.shape != source.shape or target.dtype != source.dtype:
            raise LaunchError(
                f"cannot copy {source.dtype} {source.shape} to {target.dtype} {target.shape}: must be alike"
            )
        memory.copy(target.address, source.address, target.nbytes)
        self.runtime.emu_copied(target.address, source.address, target.nbytes)

    def unwritten(self, array: Array, element: int) -> tuple[int, int]:
        """Number of unwritten elements of an array, of `element` bytes each, and the first of them; check mode only."""
        first, gaps = ctypes.c_size_t(0), ctypes.c_size_t(0)
        count = self.runtime.emu_unwritten(
            array.address, array.nbytes, element, ctypes.byref(first), ctypes.byref(gaps)
        )
        return int(count), first.value

    def counts(self) -> list[tuple[int, ...]]:
        """Counts of the warps' instructions in the last launch, in the count mode. A row for each position in the code:
        number of the act in runtime/counter.h, address in the module, and the fields of its `Count`.
        """
        self.runtime.emu_counts.restype = ctypes.c_char_p
        text = self.runtime.emu_counts().decode()
        return [tuple(map(int, line.split())) for line in text.splitlines()]

    def stuck(self, launch: Launch) -> list[Report]:
        """Faults of the running launch with the position of one thread; empty if no thread answers.

        It is called from another Python thread, in a process that then ends: a launch cannot be ended.
        """
        assert isinstance(launch, EmulatedLaunch)
        found: list[Report] = []
        for _ in range(ATTEMPTS if self.watched else 0):
            text = self.runtime.emu_stuck()
            found = read(text.decode("utf-8", "replace"), launch.name, launch.kernel.function.library) if text else []
            if found and found[0].locations[0][1]:
                break  # on its way to the runtime a thread has no line
        return found

    def _described(self, array: Array, columns: int, tile: tuple[int, ...], to_tf32: bool) -> np.ndarray:
        """Words of a tensor map, as in headers/interface.h."""
        size = array.dtype.itemsize
        words = np.zeros(WORDS, np.uint64)
        sizes, pitches = axes(array, columns)
        words[:5] = MAP_MARK, array.address, size, to_tf32, len(sizes)
        for first, most, fill, found in ((5, 4, 1, sizes), (9, 3, 0, pitches), (12, 4, 1, tile[::-1])):
            words[first : first + most] = (*found, *(fill,) * (most - len(found)))
        return words

    def new_stream(self) -> Stream:
        return EmulatedStream()

    def synchronize(self) -> None:
        pass

    def free_memory(self) -> int:
        return memory.free()
