"""Occupancy: the share of a multiprocessor's threads that one kernel can occupy at a time."""

from __future__ import annotations

import math

from .limits import Dim3, Limits, Resources

REGISTERS_PER_WARP = 256  # registers are handed out to warps in such steps


def blocks_per_multiprocessor(block: Dim3, shared: int, resources: Resources, limits: Limits) -> int:
    """Number of a launch's blocks that fit a multiprocessor, by threads, registers, shared memory and blocks."""
    return min(blocks_by_limit(block, shared, resources, limits).values())


def blocks_by_limit(block: Dim3, shared: int, resources: Resources, limits: Limits) -> dict[str, int]:
    """Number of a launch's blocks that fit a multiprocessor by each limit alone, by the limit's name."""
    warps = -(-math.prod(block) // limits.warp)
    most = {
        "blocks": limits.blocks_per_multiprocessor,
        "threads": limits.threads_per_multiprocessor // (warps * limits.warp),
    }
    if resources.registers:
        each = -(-resources.registers * limits.warp // REGISTERS_PER_WARP) * REGISTERS_PER_WARP
        most["registers"] = limits.registers_per_block // each // warps
    held = shared + resources.static_shared
    if held:
        most["shared memory"] = limits.shared_per_multiprocessor // (held + limits.shared_reserved)
    return most


def occupancy(block: Dim3, shared: int, resources: Resources, limits: Limits) -> float:
    """Occupancy: resident over possible threads of a multiprocessor, 0 to 1, for a grid that fills the device."""
    warps = -(-math.prod(block) // limits.warp)
    return (
        blocks_per_multiprocessor(block, shared, resources, limits)
        * warps
        * limits.warp
        / limits.threads_per_multiprocessor
    )
