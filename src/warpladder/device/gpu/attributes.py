"""What the driver says of a GPU: its compute capability and its limits. Asking makes no context."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda

from ...machine.peaks import Peaks
from .. import Limits
from .driver import call

#: Blocks in a cluster that every GPU with clusters takes, and what some take when they are asked to, by the major
#: capability.
PORTABLE_CLUSTER = 8
CLUSTERS = {9: 16, 10: 16}


def capability(device: Any) -> tuple[int, int]:
    """Compute capability, major and minor."""
    return _ask(device, "COMPUTE_CAPABILITY_MAJOR"), _ask(device, "COMPUTE_CAPABILITY_MINOR")


def name(device: Any) -> str:
    """As NVIDIA calls it."""
    return str(call(cuda.cuDeviceGetName, 128, device, doing="name a GPU").split(b"\0")[0].decode())


def limits(device: Any) -> Limits:
    """Everything in `Limits`, of the driver's handle of a GPU."""
    found = capability(device)
    multiprocessors = _ask(device, "MULTIPROCESSOR_COUNT")
    return Limits(
        device=name(device),
        threads_per_block=_ask(device, "MAX_THREADS_PER_BLOCK"),
        block=(_ask(device, "MAX_BLOCK_DIM_X"), _ask(device, "MAX_BLOCK_DIM_Y"), _ask(device, "MAX_BLOCK_DIM_Z")),
        grid=(_ask(device, "MAX_GRID_DIM_X"), _ask(device, "MAX_GRID_DIM_Y"), _ask(device, "MAX_GRID_DIM_Z")),
        shared_per_block=_ask(device, "MAX_SHARED_MEMORY_PER_BLOCK"),
        shared_opt_in=_ask(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers_per_block=_ask(device, "MAX_REGISTERS_PER_BLOCK"),
        threads_per_multiprocessor=_ask(device, "MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_multiprocessor=_ask(device, "MAX_BLOCKS_PER_MULTIPROCESSOR"),
        shared_per_multiprocessor=_ask(device, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        memory=int(call(cuda.cuDeviceTotalMem, device, doing="ask for a GPU's memory")),
        multiprocessors=multiprocessors,
        cluster=CLUSTERS.get(found[0], PORTABLE_CLUSTER if found >= (9, 0) else 1),
        warp=_ask(device, "WARP_SIZE"),
        peaks=Peaks(found, multiprocessors, 1e3 * _ask(device, "CLOCK_RATE")),
        bandwidth=2.0 * 1e3 * _ask(device, "MEMORY_CLOCK_RATE") * _ask(device, "GLOBAL_MEMORY_BUS_WIDTH") / 8,
    )


def _ask(device: Any, what: str) -> int:
    kind = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{what}")
    return int(call(cuda.cuDeviceGetAttribute, kind, device, doing=f"ask a GPU for {what}"))
