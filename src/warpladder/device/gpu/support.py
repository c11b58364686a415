"""Reason why kernels cannot run on a GPU of this machine, found without a context on the GPU."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from ...errors import DeviceError
from ...results import Gpu

#: Compute capability of the oldest GPUs that the kernels are compiled for: Turing.
OLDEST = (7, 5)

INSTEAD = "the CPU rungs work without it, and so does --device emulated"

#: The first driver release for each CUDA version.
DRIVERS = {12: "525", 13: "580"}


@cache
def why_not(index: int = 0) -> str | None:
    """Line with what is missing and what still works; None if the GPU of this number can be used."""
    reason = _missing() or _no_driver() or _no_gpu(index) or _no_compiler()
    return f"{reason}; {INSTEAD}" if reason else None


def found_gpu() -> Gpu | None:
    """Facts about the GPU, for results; None without a usable GPU."""
    if why_not() is not None:
        return None
    from .properties import facts

    return Gpu(**facts())


def _missing() -> str | None:
    for package in ("cuda-core", "cuda-bindings"):
        try:
            installed(package)
        except PackageNotFoundError:
            return f"{package} is not installed: pip install 'warpladder[cuda13]'"
    return None


def _no_driver() -> str | None:
    try:
        from cuda.bindings import driver as cuda

        (status,) = cuda.cuInit(0)
        known, release = cuda.cuDriverGetVersion()
    except (ImportError, OSError, RuntimeError):  # the type without libcuda depends on its version
        return "there is no NVIDIA driver (libcuda cannot be loaded)"
    wanted = int(installed("cuda-bindings").partition(".")[0])
    if not int(known) and release < 1000 * wanted:
        newer = f"{DRIVERS[wanted]} or newer" if wanted in DRIVERS else "a newer one"
        older = f", or pip install 'warpladder[cuda{release // 1000}]'" if release // 1000 in DRIVERS else ""
        return (
            f"the NVIDIA driver is too old: it knows CUDA {release // 1000}.{release % 1000 // 10}, "
            f"and the installed libraries are for CUDA {wanted}; install driver {newer}{older}"
        )
    if int(status):
        _, text = cuda.cuGetErrorString(status)
        return f"the NVIDIA driver does not start: {text.decode() if text else status.name}"
    return None


def _no_gpu(index: int) -> str | None:
    from cuda.bindings import driver as cuda

    from .properties import capability, name

    status, count = cuda.cuDeviceGetCount()
    if int(status) or count == 0:
        return "there is no NVIDIA GPU (or CUDA_VISIBLE_DEVICES hides it)"
    if not 0 <= index < count:
        return f"there is no GPU {index}: this machine has {count}, counted from 0"
    _, device = cuda.cuDeviceGet(index)
    found = capability(device)
    if found < OLDEST:
        return (
            f"{name(device)} is too old: it has compute capability {found[0]}.{found[1]}, "
            f"and the kernels need {OLDEST[0]}.{OLDEST[1]} (Turing, 2018) or later"
        )
    return None


def _no_compiler() -> str | None:
    from .compile import version

    try:
        version()
    except DeviceError as error:
        return str(error)
    return None
