"""Kernels and launches of the emulator: arguments are packed once, and one call of the runtime runs a launch."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import KernelError, Stopped
from .. import Array, Kernel, Launch, Resources, Stream, TensorMap
from ..arguments import laid_out
from ..limits import LaunchConfig
from ..signature import Parameter, Signature
from ..source import KernelSource
from .module import EmulatedFunction, multiplies
from .reports import REMARKS, read
from .symbols import constants

if TYPE_CHECKING:
    from .device import EmulatedDevice

ORDERS = ("forward", "reverse", "random")


class EmulatedView(ctypes.Structure):
    """Array among a launch's arguments, `View` of headers/interface.h."""

    _fields_ = (
        ("low", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("name", ctypes.c_char_p), ("element", ctypes.c_uint32),
        ("constant", ctypes.c_uint32), ("symbol", ctypes.c_uint32), ("touched", ctypes.c_uint32),
        ("floats", ctypes.c_uint32), ("stored", ctypes.c_uint64),
    )  # fmt: skip


class LaunchRecord(ctypes.Structure):
    """Launch in the runtime's format, `Launch` of headers/interface.h."""

    _fields_ = (
        ("kernel", ctypes.c_void_p), ("arguments", ctypes.c_void_p), ("layout", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3), ("dynamic_shared", ctypes.c_uint32), ("cooperative", ctypes.c_uint32),
        ("order", ctypes.c_uint32), ("seed", ctypes.c_uint32), ("threads", ctypes.c_uint32), ("views", ctypes.c_uint32),
        ("view", ctypes.c_void_p), ("code", ctypes.c_void_p), ("reports", ctypes.c_void_p),
        ("watched", ctypes.c_uint32), ("effects", ctypes.c_uint32), ("lets_leave", ctypes.c_uint32),
        ("parent", ctypes.c_void_p),
    )  # fmt: skip


class EmulatedLaunch(Launch):
    """Launch that `send` runs to its end."""

    kernel: EmulatedKernel

    def __init__(
        self, kernel: EmulatedKernel, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]
    ) -> None:
        super().__init__(kernel, config)
        device, function, parameters = kernel.device, kernel.function, kernel.signature.parameters
        held, pointers = laid_out(packed)
        self.arrays = _arrays(parameters, arguments)
        constants = [_view(name, array, element, True) for name, (array, element) in kernel.constants.items()]
        has_numbers = all(np.isfinite(given) for given in arguments if isinstance(given, (float, np.floating)))
        self._views = (EmulatedView * (len(self.arrays) + len(constants)))(
            *(_view(p.name, a, _size(p), False, p.const, _floats(p) * has_numbers) for p, a in self.arrays), *constants
        )
        self._kept = held, pointers, arguments
        self._record = LaunchRecord(
            function.address, ctypes.addressof(pointers), function.layout, kernel.signature.name.encode(),
            config.grid, config.block, config.cluster, config.shared, config.cooperative, ORDERS.index(device.order),
            device.seed & 0xFFFFFFFF, device.threads, len(self._views), ctypes.addressof(self._views),
            function.address, None, device.watched, 0, 0,
        )  # fmt: skip
        self._reference = ctypes.byref(self._record)
        self._run = device.runtime.emu_launch

    def send(self, stream: Stream | None = None) -> None:
        if self._run(self._reference):
            self._report()

    @property
    def idle(self) -> bool:
        """True if no thread has written to global memory or printed since the launch was created; check mode."""
        return not self._record.effects

    @property
    def touched(self) -> list[tuple[Parameter, Array, bool, bool]]:
        """Parameters and arrays, with True if a thread has read, and if one has written the array; check mode."""
        pairs = zip(self.arrays, self._views, strict=False)  # constants come after the arrays
        return [
            (parameter, array, bool(view.touched & 1), bool(view.touched & 2)) for (parameter, array), view in pairs
        ]

    def _report(self) -> None:
        device = self.kernel.device
        text = ctypes.string_at(self._record.reports).decode("utf-8", "replace")
        device.runtime.emu_free_reports(self._reference)
        everything = read(text, self.name, self.kernel.function.library)
        device.remarks.extend(report for report in everything if report.kind in REMARKS)
        found = [report for report in everything if report.kind not in REMARKS]
        if device.collect or not found:
            device.reports.extend(found)
            return
        if found[0].kind == "stopped":
            raise Stopped(f"kernel {found[0]}", 128 + int(found[0].array))
        more = f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""
        raise KernelError(f"kernel {found[0]}{more}{self._advice(found[0].kind)}")

    def _advice(self, kind: str) -> str:
        """Advice about a fault that the fast mode noticed only because it ended the launch; "" for others."""
        is_wild = kind in ("out of bounds", "division by zero", "stack overflow") and self.kernel.device.mode == "fast"
        return f": run `warpladder check {self.kernel.source.path}`" if is_wild else ""


class EmulatedKernel(Kernel):
    """Kernel compiled to machine code of this CPU."""

    device: EmulatedDevice

    def __init__(
        self, device: EmulatedDevice, source: KernelSource, signature: Signature, function: EmulatedFunction
    ) -> None:
        super().__init__(
            device, source, signature, Resources(static_shared=function.shared, threads_per_block=function.bounds)
        )
        if function.shared > device.limits.shared_per_block:
            raise KernelError(
                f"kernel {signature.name} of {source.path.name} has {function.shared:,} bytes of static shared memory, "
                f"and a kernel gets {device.limits.shared_per_block:,}; more must be dynamic: extern __shared__"
            )
        self.function = function
        self.constants = _constants(device, source, function)

    @property
    def uses_tensor_cores(self) -> bool:
        """True if its machine code, compiled without other kernels, calls a function for tensor cores."""
        return multiplies(self.source, self.signature.name, self.device.mode, self.device.local)

    def _launch(self, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]) -> EmulatedLaunch:
        return EmulatedLaunch(self, config, packed, arguments)


def _constants(
    device: EmulatedDevice, source: KernelSource, function: EmulatedFunction
) -> dict[str, tuple[Array, int]]:
    """Unwritten arrays by name, with bytes of an element, of `__constant__` variables without initial value."""
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
    """Arrays among the arguments, also in structs, each with its parameter."""
    found = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(argument, TensorMap):  # the mapped array is only read
            dtype = argument.array.dtype
            mapped = replace(parameter, dtype=dtype, width=1, pointer=True, const=True, members=())
            found.append((mapped, argument.array))
            continue
        inside = [(p, argument[p.name[len(parameter.name) + 1 :]]) for _, p in parameter.members]
        found += [(p, a) for p, a in inside or [(parameter, argument)] if isinstance(a, Array)]
    return found


def _size(parameter: Parameter) -> int:
    return parameter.dtype.itemsize * parameter.width


def _floats(parameter: Parameter) -> int:
    """Float format of a parameter's elements, as `View::floats`: bytes of one, 3 for bfloat16, 0 for other types."""
    return 3 if "bfloat16" in parameter.type else parameter.dtype.itemsize if parameter.dtype.kind == "f" else 0


def _view(name: str, array: Array, element: int, symbol: bool, constant: bool = True, floats: int = 0) -> EmulatedView:
    base = array if array.base is None else array.base
    return EmulatedView(base.address, base.nbytes, name.encode(), element, constant, symbol, 0, floats)
