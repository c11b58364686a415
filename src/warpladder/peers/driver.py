"""What NVIDIA's driver says about the GPU that peers would train on; asked through the driver's own library, so that no other is loaded."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache

#: Attributes of a device, by the numbers of cuda.h.
CLOCK_KHZ, MULTIPROCESSORS, MAJOR, MINOR = 13, 16, 75, 76

#: FLOPs that a multiprocessor does in a clock, by compute capability: float32 on its ordinary units, TF32 and half precision on its tensor cores.
#: Newer capabilities than the last count as the last.
RATES = {
    (7, 0): (128, 128, 1024),
    (7, 5): (128, 128, 1024),
    (8, 0): (128, 1024, 2048),
    (8, 6): (256, 256, 1024),
    (8, 7): (256, 512, 2048),
    (8, 9): (256, 512, 1024),
    (9, 0): (256, 2048, 4096),
    (10, 0): (256, 4096, 8192),
}


@dataclass(frozen=True)
class Gpu:
    """The first GPU that this process may use.

    multiprocessors : how many there are.
    clock : Hz at most.
    capability : compute capability, (major, minor).
    """

    multiprocessors: int
    clock: float
    capability: tuple[int, int]

    def peak(self, precision: str) -> float:
        """FLOP/s of products in this precision, at the highest clock: a time below what this allows is not believed."""
        known = max((capability for capability in RATES if capability <= self.capability), default=min(RATES))
        float32, tf32, half = RATES[known]
        each = {"float32": float32, "tf32": tf32}.get(precision, half)
        return self.multiprocessors * self.clock * each


@cache
def gpu() -> Gpu | str:
    """The GPU, or a line that says why there is none."""
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

    return Gpu(attribute(MULTIPROCESSORS), attribute(CLOCK_KHZ) * 1e3, (attribute(MAJOR), attribute(MINOR)))


def no_gpu() -> str | None:
    """Why there is no GPU to train on, or None."""
    found = gpu()
    return found if isinstance(found, str) else None


def peak(precision: str) -> float | None:
    """FLOP/s of the GPU in this precision; None where there is none."""
    found = gpu()
    return None if isinstance(found, str) else found.peak(precision)
