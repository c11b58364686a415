"""Emulated kernels and their launches: packed once, sent by one call of the runtime."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device import Array, Kernel, Launch, Resources, Stream
from ..device.limits import Dim3
from ..device.signature import Parameter, Signature
from ..device.source import Source
from ..errors import KernelError
from .module import Function
from .reports import read

if TYPE_CHECKING:
    from .device import EmulatedDevice

ORDERS = ("forward", "reverse", "random")


class View(ctypes.Structure):
    """An array among the arguments (headers/interface.h)."""

    _fields_ = (
        ("low", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("name", ctypes.c_char_p),
        ("element", ctypes.c_uint32), ("constant", ctypes.c_uint32),
    )  # fmt: skip


class Record(ctypes.Structure):
    """A launch (headers/interface.h)."""

    _fields_ = (
        ("kernel", ctypes.c_void_p), ("arguments", ctypes.c_void_p), ("layout", ctypes.c_void_p), ("name", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3),
        ("dynamic_shared", ctypes.c_uint32), ("cooperative", ctypes.c_uint32), ("order", ctypes.c_uint32), ("seed", ctypes.c_uint32),
        ("threads", ctypes.c_uint32), ("views", ctypes.c_uint32), ("view", ctypes.c_void_p), ("code", ctypes.c_void_p), ("reports", ctypes.c_void_p),
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
        slots = (ctypes.c_uint64 * max(1, len(packed)))()
        for slot, value in enumerate(packed):  # eight bytes each, whatever the type
            number = np.uint64(value) if isinstance(value, int) else value
            ctypes.memmove(ctypes.addressof(slots) + 8 * slot, number.tobytes(), number.nbytes)
        pointers = (ctypes.c_void_p * len(slots))(*(ctypes.addressof(slots) + 8 * slot for slot in range(len(slots))))
        arrays = [(p, a) for p, a in zip(parameters, arguments, strict=True) if isinstance(a, Array)]
        views = (View * len(arrays))(*(_view(p, a) for p, a in arrays))
        self._kept = slots, pointers, views, arguments
        self._record = Record(
            function.address, ctypes.addressof(pointers), function.layout, kernel.signature.name.encode(), grid, block, cluster,
            shared, cooperative, ORDERS.index(device.order), device.seed & 0xFFFFFFFF, device.threads, len(arrays), ctypes.addressof(views), function.address, None,
        )  # fmt: skip
        self._reference = ctypes.byref(self._record)
        self._run = device.runtime.emu_launch

    def send(self, stream: Stream | None = None) -> None:
        if self._run(self._reference):
            self._report()

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
        super().__init__(device, source, signature, Resources(static_shared=function.shared, threads_per_block=function.bounds))
        if function.shared > device.limits.shared_per_block:
            raise KernelError(
                f"kernel {signature.name} of {source.path.name} has {function.shared:,} bytes of static shared memory, and a kernel gets "
                f"{device.limits.shared_per_block:,}; more must be dynamic: extern __shared__"
            )
        self.function = function

    def _launch(
        self, grid: Dim3, block: Dim3, shared: int, packed: tuple[Any, ...], arguments: tuple[Any, ...], cooperative: bool, cluster: Dim3
    ) -> EmulatedLaunch:
        return EmulatedLaunch(self, grid, block, shared, packed, arguments, cooperative, cluster)


def _view(parameter: Parameter, array: Array) -> View:
    element = parameter.dtype.itemsize * parameter.width
    return View(array.address, array.nbytes, parameter.name.encode(), element, parameter.const)
