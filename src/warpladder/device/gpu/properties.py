"""Properties of a GPU: capability and limits from the driver, without a context, and facts for stored results."""

from __future__ import annotations

import subprocess
from typing import Any

from cuda.bindings import driver as cuda

from ...errors import DeviceError
from ...machine.peaks import Peaks
from .. import Limits
from .compile import version
from .driver import call
from .support import why_not

#: Blocks in a cluster that every GPU with clusters takes, and the most that some take on request, by major capability.
PORTABLE_CLUSTER = 8
CLUSTERS = {9: 16, 10: 16}


def capability(device: Any) -> tuple[int, int]:
    """Compute capability (major, minor) of a GPU."""
    return _attribute(device, "COMPUTE_CAPABILITY_MAJOR"), _attribute(device, "COMPUTE_CAPABILITY_MINOR")


def name(device: Any) -> str:
    """NVIDIA's name of a GPU."""
    return str(call(cuda.cuDeviceGetName, 128, device, doing="name a GPU").split(b"\0")[0].decode())


def limits(device: Any) -> Limits:
    """Limits of a GPU, from the driver's handle."""
    found = capability(device)
    multiprocessors = _attribute(device, "MULTIPROCESSOR_COUNT")
    return Limits(
        device=name(device),
        threads_per_block=_attribute(device, "MAX_THREADS_PER_BLOCK"),
        block=(
            _attribute(device, "MAX_BLOCK_DIM_X"),
            _attribute(device, "MAX_BLOCK_DIM_Y"),
            _attribute(device, "MAX_BLOCK_DIM_Z"),
        ),
        grid=(
            _attribute(device, "MAX_GRID_DIM_X"),
            _attribute(device, "MAX_GRID_DIM_Y"),
            _attribute(device, "MAX_GRID_DIM_Z"),
        ),
        shared_per_block=_attribute(device, "MAX_SHARED_MEMORY_PER_BLOCK"),
        shared_opt_in=_attribute(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers_per_block=_attribute(device, "MAX_REGISTERS_PER_BLOCK"),
        threads_per_multiprocessor=_attribute(device, "MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_multiprocessor=_attribute(device, "MAX_BLOCKS_PER_MULTIPROCESSOR"),
        shared_per_multiprocessor=_attribute(device, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        memory=int(call(cuda.cuDeviceTotalMem, device, doing="ask for a GPU's memory")),
        multiprocessors=multiprocessors,
        cluster=CLUSTERS.get(found[0], PORTABLE_CLUSTER if found >= (9, 0) else 1),
        warp=_attribute(device, "WARP_SIZE"),
        peaks=Peaks(found, multiprocessors, 1e3 * _attribute(device, "CLOCK_RATE")),
        bandwidth=2.0
        * 1e3
        * _attribute(device, "MEMORY_CLOCK_RATE")
        * _attribute(device, "GLOBAL_MEMORY_BUS_WIDTH")
        / 8,
    )


def _attribute(device: Any, what: str) -> int:
    kind = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{what}")
    return int(call(cuda.cuDeviceGetAttribute, kind, device, doing=f"ask a GPU for {what}"))


#: Queries of nvidia-smi, which knows the current clocks and the driver's full version.
QUERIES = {
    "driver": "driver_version", "clock_mhz": "clocks.sm", "clock_most_mhz": "clocks.max.sm",
    "memory_clock_mhz": "clocks.mem", "power_limit_watts": "power.limit",
}  # fmt: skip


def facts(index: int = 0) -> dict[str, Any]:
    """Facts about a GPU by name, found without a context: capability ("9.0"), multiprocessors, memory_bytes, CUDA and
    NVRTC versions; driver, clocks in MHz and power_limit_watts are None if nvidia-smi does not report them.

    Raises DeviceError: there is no usable GPU.
    """
    if reason := why_not(index):
        raise DeviceError(reason)
    handle = call(cuda.cuDeviceGet, index, doing=f"find GPU {index}")
    known = limits(handle)
    release = call(cuda.cuDriverGetVersion, doing="ask for the driver's version")
    return {
        "name": known.device, "capability": "{}.{}".format(*capability(handle)),
        "multiprocessors": known.multiprocessors, "memory_bytes": known.memory,
        "cuda": f"{release // 1000}.{release % 1000 // 10}", "nvrtc": "{}.{}".format(*version()),
        **_queried(call(cuda.cuDeviceGetPCIBusId, 32, handle, doing="find a GPU's slot").split(b"\0")[0].decode()),
    }  # fmt: skip


def peaks(index: int = 0) -> Peaks | None:
    """Peak rates of a GPU in FLOP/s, by unit and precision."""
    return limits(call(cuda.cuDeviceGet, index, doing=f"find GPU {index}")).peaks


def _queried(slot: str) -> dict[str, Any]:
    """Answers of nvidia-smi by name, for the GPU in this slot."""
    command = (
        "nvidia-smi", f"--id={slot}", f"--query-gpu={','.join(QUERIES.values())}", "--format=csv,noheader,nounits",
    )  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        values = [value.strip() for value in done.stdout.strip().split(",")]
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        values = []
    if len(values) != len(QUERIES):
        return dict.fromkeys(QUERIES)
    return {name: value if name == "driver" else _number(value) for name, value in zip(QUERIES, values, strict=True)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None
