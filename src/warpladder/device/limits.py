"""Limits of a device's launches, and the check of every launch before it is queued.

A launch beyond the limits fails on a GPU with an error code. A program that does not read the code continues, and
trains with gradients that were never written (report S1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import LaunchError
from ..machine.peaks import Peaks

Dim3 = tuple[int, int, int]

#: Bytes of shared memory that the system takes of each block, from compute capability 8 on.
SHARED_PER_BLOCK = 1024


@dataclass(frozen=True)
class Limits:
    """Limits of one device, sizes in bytes.

    shared_per_block : static and dynamic shared memory of a block by default. shared_opt_in : maximum on request.
    registers_per_block : 32-bit registers of a block, and of a multiprocessor.
    threads_per_multiprocessor, blocks_per_multiprocessor, shared_per_multiprocessor : resident at the same time.
    shared_reserved : shared memory that the system takes of each block; 0 before compute capability 8.
    cluster : largest number of blocks in a cluster; 1 without clusters. warp : threads of a warp.
    peaks : FLOP/s by unit and precision; None for a device that is this CPU.
    bandwidth : bytes/s of its memory, from clock and width; None if unknown.
    """

    device: str
    threads_per_block: int = 1024
    block: Dim3 = (1024, 1024, 64)
    grid: Dim3 = (2**31 - 1, 65535, 65535)
    shared_per_block: int = 48 << 10
    shared_opt_in: int = 227 << 10
    registers_per_block: int = 65536
    threads_per_multiprocessor: int = 2048
    blocks_per_multiprocessor: int = 32
    shared_per_multiprocessor: int = 228 << 10
    shared_reserved: int = SHARED_PER_BLOCK
    memory: int = 0
    multiprocessors: int = 1
    cluster: int = 16
    warp: int = 32
    peaks: Peaks | None = None
    bandwidth: float | None = None

    @property
    def flops(self) -> float | None:
        """FLOP/s of fp32 multiply-adds without tensor cores at the highest clock; None for a device on this CPU."""
        return None if self.peaks is None else self.peaks.of("fp32")


@dataclass(frozen=True)
class Resources:
    """Resources of a compiled kernel: registers of a thread, bytes of static shared and local (spilled) memory.

    threads_per_block : largest number of threads of a block.
    """

    registers: int = 0
    static_shared: int = 0
    local: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    threads_per_block: int = 1024
    uses_tensor_cores: bool = False


class LaunchConfig(NamedTuple):
    """Grid, block, shared memory and cluster of a launch: (x, y, z) blocks and threads, bytes of dynamic shared memory.

    cooperative : True if all blocks run concurrently, so that the grid can wait for itself.
    cluster : (x, y, z) neighbouring blocks that run concurrently and access each other's shared memory.
    """

    grid: Dim3
    block: Dim3
    shared: int
    cooperative: bool = False
    cluster: Dim3 = (1, 1, 1)

    def __str__(self) -> str:
        return f"grid {self.grid}, block {self.block}, {self.shared:,} bytes dynamic"


def dim3(size: int | tuple[int, ...]) -> Dim3:
    """Size along x, y and z; missing axes are 1."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"a grid or block has one to three axes, got {sizes}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


def check(kernel: str, config: LaunchConfig, limits: Limits, resources: Resources) -> None:
    """Raise `LaunchError` for an impossible launch; the message has kernel, grid, block, shared memory and limit."""
    grid, block, shared, *_ = config
    threads = math.prod(block)
    total_shared = shared + resources.static_shared
    reason = ""
    if min(grid) < 1:
        reason = "an empty grid launches nothing"
    elif min(block) < 1:
        reason = "an empty block launches nothing"
    elif shared < 0:
        reason = "shared memory cannot be negative"
    elif threads > limits.threads_per_block:
        reason = f"{threads:,} threads a block, and {limits.device} takes {limits.threads_per_block:,}"
    elif any(size > most for size, most in zip(block, limits.block, strict=True)):
        reason = f"{limits.device} takes blocks of at most {limits.block}"
    elif any(size > most for size, most in zip(grid, limits.grid, strict=True)):
        reason = f"{limits.device} takes grids of at most {limits.grid}"
    elif threads > resources.threads_per_block:
        registers = f"{resources.registers} registers a thread and " if resources.registers else ""
        compiled = f"as compiled, with {registers}its launch bounds, takes {resources.threads_per_block:,}"
        reason = f"{threads:,} threads a block, and the kernel, {compiled}"
    elif threads * resources.registers > limits.registers_per_block:
        reason = (
            f"{threads:,} threads of {resources.registers} registers are more than "
            f"the {limits.registers_per_block:,} of a block on {limits.device}"
        )
    elif total_shared > limits.shared_opt_in:
        reason = f"{total_shared:,} bytes of shared memory a block, and {limits.device} has {limits.shared_opt_in:,}"
    if reason:
        raise LaunchError(
            f"kernel {kernel} cannot be launched: {reason} "
            f"({config} and {resources.static_shared:,} static shared memory)"
        )


def check_together(kernel: str, config: LaunchConfig, at_once: int | None, limits: Limits) -> None:
    """Raise `LaunchError` if blocks that must run concurrently cannot; at_once : number of blocks that can."""
    reason, grid, cluster = "", config.grid, config.cluster
    if min(cluster) < 1:
        reason = "an empty cluster launches nothing"
    elif math.prod(cluster) > limits.cluster:
        most = f"takes at most {limits.cluster}" if limits.cluster > 1 else "has no clusters"
        reason = f"{math.prod(cluster)} blocks a cluster, and {limits.device} {most}"
    elif any(size % part for size, part in zip(grid, cluster, strict=True)):
        reason = f"the cluster {cluster} does not divide the grid"
    elif at_once is not None and math.prod(grid) > at_once:
        reason = (
            f"{math.prod(grid):,} blocks that wait for each other, "
            f"and {limits.device} runs {at_once:,} of them at the same time"
        )
    if reason:
        raise LaunchError(f"kernel {kernel} cannot be launched: {reason} ({config} shared memory)")
