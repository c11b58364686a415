"""What a device can launch, and the check that every launch passes before it is sent.

A launch beyond the limits fails on a GPU with an error code that a program has to ask for. One that does not
ask goes on, and trains with gradients that were never written (report S1). So the check comes first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import LaunchError

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Limits:
    """Of one device. Sizes in bytes.

    device : its name, for messages.
    threads_per_block, block, grid : how many threads, and how many along each axis.
    shared_per_block : shared memory that a block gets, static and dynamic together, by default;
    shared_opt_in : and at most, for kernels that ask for it.
    registers_per_block : 32-bit registers that a block's threads have together.
    memory : device memory in all.
    multiprocessors : how many there are.
    warp : threads that run in step.
    flops : FLOP/s of float32 multiply-adds at the highest clock; None for a device that is this CPU.
    """

    device: str
    threads_per_block: int = 1024
    block: Dim3 = (1024, 1024, 64)
    grid: Dim3 = (2**31 - 1, 65535, 65535)
    shared_per_block: int = 48 << 10
    shared_opt_in: int = 227 << 10
    registers_per_block: int = 65536
    memory: int = 0
    multiprocessors: int = 1
    warp: int = 32
    flops: float | None = None


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes: registers a thread, static shared and local (spilled) bytes, and the threads that it allows a block."""

    registers: int = 0
    static_shared: int = 0
    local: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    threads_per_block: int = 1024


def dim3(size: int | tuple[int, ...]) -> Dim3:
    """A size along x, y and z; missing axes are 1."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"a grid or block has one to three axes, got {sizes}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


def check(kernel: str, grid: Dim3, block: Dim3, shared: int, limits: Limits, resources: Resources) -> None:
    """Raise `LaunchError` where a device cannot launch this; the message names kernel, grid, block, shared memory and the limit."""
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
        compiled = (
            f"as compiled, with {resources.registers} registers a thread and its launch bounds, takes {resources.threads_per_block:,}"
        )
        reason = f"{threads:,} threads a block, and the kernel, {compiled}"
    elif threads * resources.registers > limits.registers_per_block:
        reason = f"{threads:,} threads of {resources.registers} registers are more than the {limits.registers_per_block:,} of a block on {limits.device}"
    elif total_shared > limits.shared_opt_in:
        reason = f"{total_shared:,} bytes of shared memory a block, and {limits.device} has {limits.shared_opt_in:,}"
    if reason:
        raise LaunchError(
            f"kernel {kernel} cannot be launched: {reason} "
            f"(grid {grid}, block {block}, {shared:,} bytes dynamic and {resources.static_shared:,} static shared memory)"
        )
