"""Source of the sums of a pass's blocks, with the optimizer's step and the log."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

from ...device import source as sources
from ...device.source import KernelSource
from ...optimizers import Optimizer
from ..small_chain.links import Links
from ..update.rule import gradient_end

#: Name of the kernel.
FINISH = "one_pass_finish"

_FINISH = """\
// Gradients of linear layers {widths} from the sums of a pass's blocks, the update if there is one, and the log.
{include}#include "finish_sum.cuh"

constexpr int PARTS = 16;

extern "C" __global__ void __launch_bounds__(COLUMNS * PARTS) {name}(
    const float* __restrict__ sums, int blocks, {arrays}, const double* __restrict__ lost,
    const int* __restrict__ hits, {flat}int* step, double* log_loss, long long* log_correct, int batch, int first,
    int last
) {{
    const {ends};
    if (blockIdx.x == gridDim.x - 1) {{
        sum_log<PARTS>(lost, hits, blocks, step, log_loss, log_correct, batch, first, last);
        return;
    }}
    const int column = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    int p = column;
    float* to = nullptr;
{lines}
    finish_sum<PARTS>(sums, blocks, {count}, column, to, ends);
}}
"""


def small_sums(links: Links) -> list[tuple[str, int, int]]:
    """Arrays of the gradient but the first layer's weights, in the order of their sums: "w" or "b", layer, numbers."""
    found = []
    for k, (inputs, outputs) in enumerate(pairwise(links.widths), 1):
        found += [("w", k, inputs * outputs)] if k > 1 else []
        found += [("b", k, outputs)] if links.has_bias[k] else []
    return found


@cache
def finish_source(links: Links, optimizer: Optimizer | None) -> KernelSource:
    """Kernel that adds up the blocks' sums. optimizer : whose step is made too, or None."""
    end = gradient_end(optimizer)

    first = links.widths[0] * links.widths[1]
    lines = [f"    if (to == nullptr) {{ if (p < {count}) to = d{kind}{k} + p; else p -= {count}; }}"
             for kind, k, count in [("w", 1, first), *small_sums(links)]]  # fmt: skip
    text = _FINISH.format(
        name=FINISH,
        widths="-".join(map(str, links.widths)),
        include=end.include,
        flat=end.parameters,
        ends=end.declaration,
        arrays=", ".join(f"float* dw{k}" + f", float* db{k}" * links.has_bias[k] for k in range(1, links.last + 1)),
        lines="\n".join(lines),
        count=first + sum(count for _, _, count in small_sums(links)),
    )
    return sources.assembled(Path(__file__).with_name(f"{FINISH}.cu"), text)
