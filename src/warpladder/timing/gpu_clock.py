"""GPU clock, read through NVIDIA's management library NVML at each repetition."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

#: Names of the bits of `nvmlDeviceGetCurrentClocksThrottleReasons` that slow a GPU.
POWER_LIMIT = "power limit"
SLOWED = {0x4: POWER_LIMIT, 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power supply"}

SM = 1  # NVML_CLOCK_SM


class ClockReading(NamedTuple):
    """Clock of a GPU's multiprocessors in MHz, and the names of the reasons why it is lowered."""

    mhz: float
    slowed: tuple[str, ...] = ()


class GpuClock:
    """Reader of the clock of the first visible GPU; `library` is NVML, or None if it cannot be loaded."""

    def __init__(self, library: Any = None) -> None:
        self.library = library or _library()
        self.handle = ctypes.c_void_p()
        if self.library is not None and self._open() != 0:
            self.library = None

    def _open(self) -> int:
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
        if failed := self.library.nvmlInit_v2():
            return int(failed)
        into = ctypes.byref(self.handle)
        if first.startswith("GPU-"):
            return int(self.library.nvmlDeviceGetHandleByUUID(first.encode(), into))
        index = int(first) if first.isdecimal() else 0
        return int(self.library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), into))

    def read(self) -> ClockReading | None:
        """Present clock, or None if it cannot be read; takes some ten microseconds."""
        if self.library is None:
            return None
        mhz, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        if self.library.nvmlDeviceGetClockInfo(self.handle, SM, ctypes.byref(mhz)) != 0 or not mhz.value:
            return None
        self.library.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle, ctypes.byref(reasons))
        slowed = dict.fromkeys(words for bit, words in SLOWED.items() if reasons.value & bit)
        return ClockReading(float(mhz.value), tuple(slowed))


def _library() -> Any:
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
