"""Emulated kernels and their launches: packed once, sent by one call of the runtime."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import KernelError
from .. import Array, Kernel, Launch, Resources, Stream, TensorMap
from ..arguments import laid_out
from ..limits import Dim3
from ..signature import Parameter, Signature
from ..source import Source
from .constants import constants
from .module import Function, multiplies
from .reports import read

if TYPE_CHECKING:
    from .device import EmulatedDevice

ORDERS = ("forward", "reverse", "random")


class View(ctypes.Structure):
    """An array among the arguments (headers/interface.h)."""

    _fields_ = (
        ("low", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("name", ctypes.c_char_p),
        ("element", ctypes.c_uint32), ("constant", ctypes.c_uint32), ("symbol", ctypes.c_uint32), ("touched", ctypes.c_uint32),
    )  # fmt: skip


class Record(ctypes.Structure):
    """A launch (headers/interface.h)."""

    _fields_ = (
        ("kernel", ctypes.c_void_p), ("arguments", ctypes.c_void_p), ("layout", ctypes.c_void_p), ("name", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3),
        ("dynamic_shared", ctypes.c_uint32), ("cooperative", ctypes.c_uint32), ("order", ctypes.c_uint32), ("seed", ctypes.c_uint32),
        ("threads", ctypes.c_uint32), ("views", ctypes.c_uint32), ("view", ctypes.c_void_p), ("code", ctypes.c_void_p), ("reports", ctypes.c_void_p),
        ("watched", ctypes.c_uint32), ("effects", ctypes.c_uint32),
    )  # fmt: skip


class EmulatedLaunch(Launch):
    """A launch that runs, to its end, when it is sent."""

    kernel: EmulatedKernel

    def __init__(
        self, kernel: EmulatedKernel, grid: Dim3, block: Dim3, shared: int, packed: tuple[Any, ...], arguments: tuple[Any, ...],
        cooperative: bool, cluster: Dim3,
    ) -> None:  # fmt: skip
        super().__init__(kernel, grid, block, shared, cooperative, cluster)
        device, function, parameters = kernel.device, kernel.function, kernel.signature.parameters
        held, pointers = laid_out(packed)
        self.arrays = _arrays(parameters, arguments)
        constants = [_view(name, array, element, True) for name, (array, element) in kernel.constants.items()]
        self._views = (View * (len(self.arrays) + len(constants)))(
            *(_view(p.name, a, _size(p), False, p.const) for p, a in self.arrays), *constants
        )
        self._kept = held, pointers, arguments
        self._record = Record(
            function.address, ctypes.addressof(pointers), function.layout, kernel.signature.name.encode(), grid, block, cluster,
            shared, cooperative, ORDERS.index(device.order), device.seed & 0xFFFFFFFF, device.threads, len(self._views), ctypes.addressof(self._views),
            function.address, None, device.watched, 0,
        )  # fmt: skip
        self._reference = ctypes.byref(self._record)
        self._run = device.runtime.emu_launch

    def send(self, stream: Stream | None = None) -> None:
        if self._run(self._reference):
            self._report()

    @property
    def idle(self) -> bool:
        """Whether no thread has written to global memory, nor printed, since the launch was made; only the check mode
        looks.
        """
        return not self._record.effects

    @property
    def touched(self) -> list[tuple[Parameter, Array, bool, bool]]:
        """Each array, its parameter, and whether a thread has read it and has written to it; only the check mode looks."""
        pairs = zip(self.arrays, self._views, strict=False)  # constants come after the arrays
        return [
            (parameter, array, bool(view.touched & 1), bool(view.touched & 2)) for (parameter, array), view in pairs
        ]

    def _report(self) -> None:
        device = self.kernel.device
        text = ctypes.string_at(self._record.reports).decode("utf-8", "replace")
        device.runtime.emu_free_reports(self._reference)
        found = read(text, self.name, self.kernel.function.library)
        if device.collect:
            device.reports.extend(found)
            return
        more = f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""
        raise KernelError(f"kernel {found[0]}{more}")


class EmulatedKernel(Kernel):
    """A kernel as machine code of this CPU."""

    device: EmulatedDevice

    def __init__(self, device: EmulatedDevice, source: Source, signature: Signature, function: Function) -> None:
        super().__init__(
            device, source, signature, Resources(static_shared=function.shared, threads_per_block=function.bounds)
        )
        if function.shared > device.limits.shared_per_block:
            raise KernelError(
                f"kernel {signature.name} of {source.path.name} has {function.shared:,} bytes of static shared memory, and a kernel gets "
                f"{device.limits.shared_per_block:,}; more must be dynamic: extern __shared__"
            )
        self.function = function
        self.constants = _constants(device, source, function)

    @property
    def tensor(self) -> bool:
        """Whether its machine code calls what stands for instructions of tensor cores; kernels that were compiled with
        others are compiled alone for that.
        """
        return multiplies(self.source, self.signature.name, self.device.mode, self.device.local)

    def _launch(
        self,
        grid: Dim3,
        block: Dim3,
        shared: int,
        packed: tuple[Any, ...],
        arguments: tuple[Any, ...],
        cooperative: bool,
        cluster: Dim3,
    ) -> EmulatedLaunch:
        return EmulatedLaunch(self, grid, block, shared, packed, arguments, cooperative, cluster)


def _constants(device: EmulatedDevice, source: Source, function: Function) -> dict[str, tuple[Array, int]]:
    """The __constant__ variables without a value that a kernel's library has, and the bytes of an element; unwritten
    until somebody uploads them.
    """
    out = {}
    for name, (address, size) in function.constants.items():
        if address not in device.adopted:
            kind = constants(source)[name]
            width = kind.width if kind and size % kind.size == 0 else 0
            dtype = kind.dtype if kind and width else np.dtype(np.uint8)
            shape = (size // (dtype.itemsize * max(width, 1)), *([width] if width > 1 else []))
            device.runtime.emu_adopt(address, size, min(dtype.itemsize, 4))
            device.adopted[address] = Array(device, address, shape, dtype, function), dtype.itemsize * max(width, 1)
        out[name] = device.adopted[address]
    return out


def _arrays(parameters: tuple[Parameter, ...], arguments: tuple[Any, ...]) -> list[tuple[Parameter, Array]]:
    """The arrays among the arguments, those in structs too, each with its parameter."""
    found = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(argument, TensorMap):  # what it maps is only read
            found.append(
                (
                    replace(parameter, dtype=argument.array.dtype, width=1, pointer=True, const=True, members=()),
                    argument.array,
                )
            )
            continue
        inside = [(p, argument[p.name[len(parameter.name) + 1 :]]) for _, p in parameter.members] or [
            (parameter, argument)
        ]
        found += [(p, a) for p, a in inside if isinstance(a, Array)]
    return found


def _size(parameter: Parameter) -> int:
    return parameter.dtype.itemsize * parameter.width


def _view(name: str, array: Array, element: int, symbol: bool, constant: bool = True) -> View:
    return View(array.address, array.nbytes, name.encode(), element, constant, symbol)
