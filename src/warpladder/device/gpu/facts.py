"""What the GPU is, for the results that were measured on it."""

from __future__ import annotations

import subprocess
from typing import Any

from cuda.bindings import driver as cuda

from ...errors import DeviceError
from ...machine.peaks import Peaks
from .attributes import capability, limits
from .compile import version
from .driver import call
from .support import why_not

#: What nvidia-smi is asked: it knows the clocks of now, and the driver's full version.
ASKED = {
    "driver": "driver_version",
    "clock_mhz": "clocks.sm",
    "clock_most_mhz": "clocks.max.sm",
    "memory_clock_mhz": "clocks.mem",
    "power_limit_watts": "power.limit",
}


def facts(index: int = 0) -> dict[str, Any]:
    """Name, driver, CUDA and NVRTC, capability, multiprocessors, clocks and memory of a GPU; makes no context on it.

    Returns
    -------
    dict
        name, capability ("9.0"), multiprocessors, memory_bytes, cuda (what the driver knows), nvrtc; driver, clock_mhz
        (now), clock_most_mhz, memory_clock_mhz and power_limit_watts, each None where nvidia-smi is missing or does not
        know.

    Raises
    ------
    DeviceError
        Without a GPU that can be used.
    """
    if reason := why_not(index):
        raise DeviceError(reason)
    handle = call(cuda.cuDeviceGet, index, doing=f"find GPU {index}")
    known = limits(handle)
    release = call(cuda.cuDriverGetVersion, doing="ask for the driver's version")
    return {
        "name": known.device,
        "capability": "{}.{}".format(*capability(handle)),
        "multiprocessors": known.multiprocessors,
        "memory_bytes": known.memory,
        "cuda": f"{release // 1000}.{release % 1000 // 10}",
        "nvrtc": "{}.{}".format(*version()),
        **_asked(call(cuda.cuDeviceGetPCIBusId, 32, handle, doing="find a GPU's slot").split(b"\0")[0].decode()),
    }


def peaks(index: int = 0) -> Peaks | None:
    """What a GPU can do at most, by unit and precision."""
    return limits(call(cuda.cuDeviceGet, index, doing=f"find GPU {index}")).peaks


def _asked(slot: str) -> dict[str, Any]:
    """nvidia-smi's answers for the GPU in this slot."""
    command = ("nvidia-smi", f"--id={slot}", f"--query-gpu={','.join(ASKED.values())}", "--format=csv,noheader,nounits")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        values = [value.strip() for value in done.stdout.strip().split(",")]
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        values = []
    if len(values) != len(ASKED):
        return dict.fromkeys(ASKED)
    return {name: value if name == "driver" else _number(value) for name, value in zip(ASKED, values, strict=True)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None
