"""Facts about the GPU for peers, from the library of NVIDIA's driver, so that no other library is loaded."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from ...machine.peaks import Peaks

#: Attributes of a device, by the numbers of cuda.h.
CLOCK_KHZ, MULTIPROCESSORS, MAJOR, MINOR = 13, 16, 75, 76


@cache
def gpu() -> Peaks | str:
    """Peak rates of the first GPU that this process may use, or the reason why there is none."""
    if sys.platform == "darwin":
        return "macOS has no NVIDIA GPU"
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver here"
    count, device, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if error := driver.cuInit(0):
        return f"the NVIDIA driver does not start (error {error}): is there a GPU, and may this process use it?"
    if driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value or driver.cuDeviceGet(ctypes.byref(device), 0):
        return "the NVIDIA driver shows no GPU: does CUDA_VISIBLE_DEVICES hide it?"

    def attribute(number: int) -> int:
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return Peaks((attribute(MAJOR), attribute(MINOR)), attribute(MULTIPROCESSORS), attribute(CLOCK_KHZ) * 1e3)


def no_gpu(precision: str = "fp32") -> str | None:
    """Reason why no GPU multiplies in this precision; None if one does."""
    found = gpu()
    return found if isinstance(found, str) else found.lacks(precision)


def peak(precision: str) -> float | None:
    """Peak FLOP/s of the GPU in this precision; None without a GPU."""
    found = gpu()
    return None if isinstance(found, str) else found.of(precision)
