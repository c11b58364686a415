"""Counts with Nsight Compute's names (`ncu --metrics`), and the occupancy of a GPU with its limit."""

from __future__ import annotations

from ...device.emulator.counts import Count, KernelCounts, Line
from ...device.limits import Limits, Resources
from ...device.occupancy import blocks_by_limit
from .measure import plural

#: Suffix of the names of the requests and sectors of each act of global memory.
_GLOBAL = {"global load": "global_op_ld", "global store": "global_op_st", "global atomic": "global_op_atom"}
_SHARED = {"shared load": "shared_op_ld", "shared store": "shared_op_st", "shared atomic": "shared_op_atom"}


def named(counts: dict[str, Count]) -> dict[str, float]:
    """Counts that are not 0, by their name."""
    found: dict[str, float] = {}
    for act, end in _GLOBAL.items():
        count = counts.get(act, Count())
        if count.warps:
            found[f"l1tex__t_requests_pipe_lsu_mem_{end}.sum"] = count.warps
            found[f"l1tex__t_sectors_pipe_lsu_mem_{end}.sum"] = count.sectors
            ratio = count.sectors / count.warps
            found[f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_{end}.ratio"] = ratio
    for act, end in _SHARED.items():
        count = counts.get(act, Count())
        if count.warps:
            found[f"smsp__inst_executed_{end.replace('shared_op_', 'op_shared_')}.sum"] = count.warps
            found[f"l1tex__data_pipe_lsu_wavefronts_mem_{end}.sum"] = count.passes
            found[f"l1tex__data_bank_conflicts_pipe_lsu_mem_{end}.sum"] = count.conflicts
    return found


def of_line(line: Line) -> dict[str, float]:
    """Counts of a line, by their name."""
    return named(line.acts) | _divergence(line["block"])


def of_kernel(kernel: KernelCounts) -> dict[str, float]:
    """Counts of a launch, by their name."""
    acts = {act: kernel.total(act) for act in (*_GLOBAL, *_SHARED)}
    found = named(acts) | _divergence(kernel.total("block"))
    if kernel.has_flops:
        done = kernel.arithmetic
        for name, count in (("fadd", done.add), ("fmul", done.mul), ("ffma", done.fma)):
            found[f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"] = count
    return found


def _divergence(blocks: Count) -> dict[str, float]:
    return {"smsp__thread_inst_executed_per_inst_executed.ratio": blocks.active} if blocks.warps else {}


def occupancy(kernel: KernelCounts, limits: Limits, registers: int) -> tuple[float, str]:
    """Most resident warps of a multiprocessor in per cent (sm__maximum_warps_per_active_cycle_pct), and the limiting
    resource.

    registers : registers of a thread; 0 if unknown.
    """
    resources = Resources(registers=registers, static_shared=kernel.static_shared)
    by = blocks_by_limit(kernel.block, kernel.shared, resources, limits)
    blocks = min(by.values())
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    warps, most = -(-threads // limits.warp), limits.threads_per_multiprocessor // limits.warp
    reasons = [name for name, count in by.items() if count == blocks]
    return (
        100 * blocks * warps / most,
        f"{plural(blocks, 'block')} of {plural(warps, 'warp')}, by {' and '.join(reasons)}",
    )
