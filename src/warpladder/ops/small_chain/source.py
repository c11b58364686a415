"""Sources of a small chain's two kernels, assembled for its widths: a line for each layer and direction."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

from ...device import source as sources
from ...device.source import KernelSource
from ..linear.short_gradients import Tile, tile_grid
from .plan import ChainPlan, padded

#: Names of the kernels.
FORWARD, GRADIENT = "small_chain", "small_chain_gradients"

_FORWARD = """\
// Linear layers {widths} with ReLU between them, and cross-entropy: a block has {samples} samples.
#include "layers.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) {name}(
    const {pixel}* __restrict__ source, float scale, const int* __restrict__ label,
    const unsigned* __restrict__ order, const int* __restrict__ step, {parameters},
    float* __restrict__ x, float* __restrict__ dx, {arrays}, double* __restrict__ lost, int* __restrict__ hits,
    int n, int whole, int offset, float mean
) {{
    constexpr int S = {samples};
    __shared__ int labels[S];
    __shared__ Barrier arrivals[{copies}];
    begin_copies(arrivals, {copies});
    const int begin = blockIdx.x * S;
    const Samples mine = {{begin, min(S, n - begin)}};
    const long long first = order == nullptr ? 0 : *step * static_cast<long long>(whole) + offset;
{lines}
}}
"""

_GRADIENT = """\
// Weight gradients of linear layers {widths}, the update if there is one, and the log, in one launch.
#include "chain_end.cuh"
#include "weight_tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) {name}(
    {arrays},
    const double* __restrict__ lost, const int* __restrict__ hits, float* grads, float* params,
    float* momentum_buffer, float rate, float momentum, int nesterov, float decay, float limit, int* step,
    double* log_loss, long long* log_correct, int n, int batch, int first, int last
) {{
    const Flat flat = {{grads, params, momentum_buffer, {{rate, momentum, nesterov, decay}}, limit}};
    int block = blockIdx.x;
{lines}
}}
"""


@cache
def forward_source(plan: ChainPlan, pixel: str, gathers: bool) -> KernelSource:
    """Kernel of forward pass, loss and backward pass of a block's samples.

    gathers : True if the samples are read from the data set; False for an array of the batch, whose gradient is dx.
    """
    layers = range(1, len(plan.widths))
    text = _FORWARD.format(
        name=FORWARD,
        widths="-".join(map(str, plan.widths)),
        samples=plan.samples,
        copies=sum(map(len, plan.copies)),
        pixel=pixel,
        parameters=", ".join(f"const float* __restrict__ w{k}, const float* __restrict__ b{k}" for k in layers),
        arrays=", ".join(
            [*(f"float* __restrict__ y{k}" for k in layers[:-1]), *(f"float* __restrict__ g{k}" for k in layers)]
        ),
        lines="\n".join(f"    {line}" for line in _passes(plan, pixel, gathers)),
    )
    return sources.assembled(Path(__file__).with_name(f"{FORWARD}.cu"), text)


def _passes(plan: ChainPlan, pixel: str, gathers: bool) -> list[str]:
    """Lines of CUDA: copies of weights, gathering, and each pass after the copies that it needs."""
    widths, rows, last = plan.widths, plan.rows, len(plan.widths) - 1
    lines: list[str] = []
    groups: list[int] = []  # layer of each group of copies that has begun
    for number, layer in enumerate(plan.passes):
        inputs, outputs = widths[layer - 1], widths[layer]
        for copy in plan.copies[number]:
            where = f"{copy.place}, w{copy.layer}, arrivals + {len(groups)}"
            lines.append(f"hold<{widths[copy.layer - 1]}, {widths[copy.layer]}>({where});")
            groups.append(copy.layer)
        if number == 0:
            stored = "x" if gathers else "nullptr"
            where = f"{rows[0]}, labels, source, scale, label, order, first, {stored}, mine"
            lines += [f"gather<{inputs}, S, {pixel}>({where});", "__syncthreads();"]
        own = max(at for at, group in enumerate(groups) if group == layer)
        lines.append(f"ready<{inputs}, {len(groups) - 1 - own}>(arrivals + {own});")
        at, w = rows[layer - 1], plan.weights[number]
        if number < last:
            relu, stored = ("true", f"y{layer}") if layer < last else ("false", "nullptr")
            shapes = f"{inputs}, {outputs}, S, {relu}"
            lines.append(f"forward<{shapes}>({at}, {w}, b{layer}, {rows[layer]}, {stored}, mine);")
            if layer == last:
                lines.append(f"cross_entropy<{outputs}, S>({rows[layer]}, labels, mean, g{layer}, lost, hits, mine);")
        else:
            mask, pitch, stored = ("true", padded(inputs), f"g{layer - 1}") if layer > 1 else ("false", inputs, "dx")
            shapes = f"{inputs}, {outputs}, S, {mask}, {pitch}"
            lines.append(f"backward<{shapes}>({rows[layer]}, {w}, {at}, {stored}, mine);")
    return lines


@cache
def gradient_source(widths: tuple[int, ...], pitch: int, tile: Tile) -> KernelSource:
    """Kernel of all weight gradients. pitch : floats between rows of the first layer's input. tile : as in `TILES`."""
    layers = range(1, len(widths))
    lines = ["Batch rows;", "float *dw, *db;", "int inputs, outputs, across;"]
    first = 0
    for layer, (inputs, outputs) in zip(layers, pairwise(widths), strict=True):
        across, down = tile_grid(tile, inputs, outputs)
        x, pitch_x = ("x", pitch) if layer == 1 else (f"y{layer - 1}", padded(inputs))
        otherwise = "else " if layer > 1 else ""
        lines += [
            f"{otherwise}if (block < {first + across * down}) {{",
            f"    rows = {{{x}, g{layer}, nullptr, n, {pitch_x}, {padded(outputs)}}};",
            f"    dw = dw{layer}, db = db{layer};",
            f"    inputs = {inputs}, outputs = {outputs}, across = {across}, block -= {first};",
            "}",
        ]
        first += across * down
    lines += [
        "else {",
        "    sum_log<WARPS>(lost, hits, n, step, log_loss, log_correct, batch, first, last);",
        "    return;",
        "}",
    ]
    shape = ", ".join(map(str, tile))
    call = f"weight_tile<1, {shape}>(rows, dw, db, flat, inputs, outputs, block % across, block / across);"
    if pitch % 4:
        lines.append(f"if (rows.x == x) {call.replace('<1', '<0')}")
        call = f"else {call}"
    lines.append(call)
    names = ["x", *(f"y{k}" for k in layers[:-1]), *(f"g{k}" for k in layers)]
    text = _GRADIENT.format(
        name=GRADIENT,
        widths="-".join(map(str, widths)),
        arrays=", ".join(
            [f"const float* __restrict__ {name}" for name in names] + [f"float* dw{k}, float* db{k}" for k in layers]
        ),
        lines="\n".join(f"    {line}" for line in lines),
    )
    return sources.assembled(Path(__file__).with_name(f"{GRADIENT}.cu"), text)
