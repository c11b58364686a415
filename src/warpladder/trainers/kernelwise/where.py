"""Device on which a run's kernels run, and reasons why they cannot."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

from ...device import Device
from ...machine.peaks import Peaks

#: Mode of the emulator for trainers that are built in this context: "count" to count what their kernels do.
emulator_mode: ContextVar[str] = ContextVar("emulator_mode", default="fast")


def open_device(name: str | None) -> Device:
    """Device by name: None is the GPU, "emulated" the emulator. A process has one of each, so that kernels are loaded
    once.
    """
    return _opened(name, emulator_mode.get())


@cache
def _opened(name: str | None, mode: str) -> Device:
    if name == "emulated":
        from ...device.emulator import EmulatedDevice

        return EmulatedDevice(mode, collect=mode == "count")  # counts need no data
    from ...device.gpu import GpuDevice

    return GpuDevice()


def why_not(name: str | None) -> str | None:
    """Reason why kernels cannot run on the GPU (None) or on the emulator ("emulated"); None if they can."""
    if name == "emulated":
        from ...device import emulator

        return emulator.why_not()
    from ...device import gpu

    return gpu.why_not()


def peaks(name: str | None) -> Peaks | None:
    """Peak rates of the GPU (None), read without a context on it; None for the emulator ("emulated")."""
    if name == "emulated":
        return None
    from ...device.gpu.properties import peaks as of_gpu

    return of_gpu()


def why_not_cupy() -> str | None:
    """Reason why CuPy's arrays cannot be used on this machine; None if they can."""
    if find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'warpladder[cuda13]'"
    from ...device import gpu

    return gpu.why_not()
