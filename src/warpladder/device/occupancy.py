"""Occupancy: the share of a multiprocessor's threads that one kernel can keep there at a time."""

from __future__ import annotations

import math

from .limits import Dim3, Limits, Resources

REGISTERS_PER_WARP = 256  # registers are handed out to warps in such steps
SHARED_PER_BLOCK = (
    1024  # bytes of shared memory that the system keeps for itself in each block (compute capability 8 and later)
)


def blocks_per_multiprocessor(block: Dim3, shared: int, resources: Resources, limits: Limits) -> int:
    """Blocks of a launch that fit a multiprocessor, by its limits of threads, registers, shared memory and blocks."""
    warps = -(-math.prod(block) // limits.warp)
    most = [limits.blocks_per_multiprocessor, limits.threads_per_multiprocessor // (warps * limits.warp)]
    if resources.registers:
        each = -(-resources.registers * limits.warp // REGISTERS_PER_WARP) * REGISTERS_PER_WARP
        most.append(limits.registers_per_block // each // warps)
    held = shared + resources.static_shared
    if held:
        most.append(limits.shared_per_multiprocessor // (held + SHARED_PER_BLOCK))
    return min(most)


def occupancy(block: Dim3, shared: int, resources: Resources, limits: Limits) -> float:
    """Resident threads over possible threads of a multiprocessor, 0 to 1, for a grid that fills the device."""
    warps = -(-math.prod(block) // limits.warp)
    return (
        blocks_per_multiprocessor(block, shared, resources, limits)
        * warps
        * limits.warp
        / limits.threads_per_multiprocessor
    )
