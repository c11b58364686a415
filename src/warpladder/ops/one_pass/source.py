"""Source of a pass over many samples, assembled for a chain's widths, functions and loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from ...device import source as sources
from ...device.source import KernelSource
from ...nets import CrossEntropyLoss
from ..loss import scalar as loss
from ..small_chain.links import Links
from ..small_chain.source import function_types
from .finish import small_sums
from .plan import STAGES, THREADS, PassPlan, quads

#: Name of the kernel.
PASS = "one_pass"

_PASS = """\
// Linear layers {widths} and {loss}, forward and backward, in one pass over the samples: a block has every so many of
// the tiles. While some warps have the next tile's rows after the first layer, the others add this one's gradient; with
// {block} threads, if these are more than THREADS, the second half has the rows and the first the products.
#include "rows.cuh"

{types}using Shape = Tile<{pixel}, {inputs}, {outputs}, {rows}, {splits}, {block}>;

extern "C" __global__ void __launch_bounds__({block}, {resident}) {name}(
    const unsigned char* __restrict__ packed, const unsigned* __restrict__ sizes, float scale,
    const {goal}* __restrict__ goal, float goal_scale, const unsigned* __restrict__ order,
    const int* __restrict__ step, const unsigned* __restrict__ mask_key, const float* __restrict__ share,
    const float* __restrict__ setting, const float* __restrict__ numbers, {parameters},
    float* __restrict__ sums, double* __restrict__ lost, int* __restrict__ hits,
    float* __restrict__ numbers_now, int n, int whole, int offset, float mean
) {{
    constexpr int ROWS = {rows}, COLUMN = ROWS + 4, STAGES = {stages}, TILE = ROWS * Shape::PITCH;
    constexpr int FIRST = 4 * Shape::QUADS, SMALL = {small}, SHARES = {shares}, PAIRS = {pairs};
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ Barrier arrivals[STAGES];
    __shared__ Found found_by[WARPS];
    const auto floats = [&](int place) {{ return reinterpret_cast<float*>(memory + place); }};
    uint2 *const fragments = reinterpret_cast<uint2*>(memory + {fragments_at}),
        *const gradient = reinterpret_cast<uint2*>(memory + {gradient_at});
    unsigned *const exponents = reinterpret_cast<unsigned*>(memory + {exponents_at}),
        *const largest = reinterpret_cast<unsigned*>(memory + {largest_at});
    float *const parts = floats({parts_at}), *const columns = floats({ones_at});
    const int tiles = (n + ROWS - 1) / ROWS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr bool ROLES = Shape::BLOCK > THREADS;
    const int helper = ROLES ? threadIdx.x - THREADS : threadIdx.x, helping = helper / 32;  // and its warp
    const int mine = (tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1)
        / static_cast<int>(gridDim.x);
    const long long first = order == nullptr ? offset : *step * static_cast<long long>(whole) + offset;
    const auto tile_of = [&](int now) {{ return static_cast<int>(blockIdx.x + now * gridDim.x); }};
    const auto request = [&](int now) {{
        if (now >= mine || helper < 0 || helper >= 32) return;
        Barrier* const arrival = arrivals + now % STAGES;
        fetch<Shape>(tile_of(now), memory + now % STAGES * TILE, packed, order, first, n, arrival);
    }};

    if (threadIdx.x == 0) {{
        for (int k = 0; k < STAGES; ++k) barrier_init(arrivals + k, 1);
        barriers_ready();
    }}
    __syncthreads();
    for (int k = 0; k < STAGES; ++k) request(k);
    if (numbers != nullptr && blockIdx.x == 0 && threadIdx.x < 8)
        numbers_now[threadIdx.x] = numbers[8LL * *step + threadIdx.x];
    for (int k = threadIdx.x; k < COLUMN; k += Shape::BLOCK) columns[k] = 1.0f;
    for (int k = threadIdx.x; k < FIRST; k += Shape::BLOCK)
        floats({b1_at})[k] = {b1};
{hold}
    split_weights<Shape>(fragments, exponents, w1, sizes);

    const auto pair_of = [&](int p) -> Pair {{
{pair_lines}
        return {{-1, -1}};
    }};
    const int part = SHARES > 1 ? helper / SMALL : 0, number = SHARES > 1 ? helper % SMALL : helper;
    Pair pairs[PAIRS];
    float products[PAIRS] = {{}}, sum[Shape::MOST][Shape::QUADS][2] = {{}};
#pragma unroll
    for (int k = 0; k < PAIRS; ++k) pairs[k] = {{-1, -1}};
    Found found = {{0.0, 0}};
{loops}

    float* const to = sums + static_cast<long long>(blockIdx.x) * (Shape::OUTPUTS * Shape::INPUTS + SMALL);
    store_weight_gradient<Shape>(sum, floats(0), to, scale, sizes);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < PAIRS; ++k)
        if (pairs[k].left >= 0) floats(0)[helper + k * THREADS] = products[k];
    found.lost = warp_sum(found.lost), found.hits = warp_sum(found.hits);
    if (helper >= 0 && lane == 0) found_by[helping] = found;
    __syncthreads();
    for (int p = threadIdx.x; p < SMALL; p += Shape::BLOCK) {{
        float total = floats(0)[p];
        for (int k = 1; k < SHARES; ++k) total += floats(0)[k * SMALL + p];
        to[Shape::OUTPUTS * Shape::INPUTS + p] = total;
    }}
    if (threadIdx.x > 0 || lost == nullptr) return;
    found = found_by[0];
    for (int k = 1; k < WARPS; ++k) found.lost += found_by[k].lost, found.hits += found_by[k].hits;
    lost[blockIdx.x] = found.lost, hits[blockIdx.x] = found.hits;
}}
"""

_LOOP = """\
    {otherwise}{{
        constexpr bool multiplies = {multiplies}, helps = {helps};
#pragma unroll
        for (int k = 0; k < PAIRS; ++k)
            if (helps && part < SHARES) pairs[k] = pair_of(number + k * THREADS);
        // now: the tile whose outputs are computed; the one before gets its gradient
        for (int now = 0; now <= mine; ++now) {{
            const bool has_rows = helps && helping < ROWS / 8;
            const unsigned char *const tile = memory + now % STAGES * TILE,
                *const before_it = memory + (now + STAGES - 1) % STAGES * TILE;
            const int row = helping * 8 + lane / 4, at = tile_of(now) * ROWS + row;  // of this lane's sample
            unsigned *const sizes_now = largest + now % 2 * FIRST,
                *const sizes_before = largest + (now + 1) % 2 * FIRST;
            float its = mean;
            {goals};
            if (now < mine) {{
                if (has_rows) {{  // what the rows need comes while this tile is multiplied
                    long long sample = first + min(at, n - 1);
                    if (share != nullptr) its = share[sample];
                    if (order != nullptr) sample = order_at(order, static_cast<unsigned>(sample));
                    {load_goals};
                }}
                if (helps && helper < FIRST) sizes_now[helper] = 0u;
                if constexpr (multiplies) {{
                    barrier_wait(arrivals + now % STAGES, now / STAGES % 2);
                    multiply<Shape>(tile, fragments, parts);
                }}
            }}
            if (helps && now > 0) {{
                split_gradient<Shape, COLUMN>(gradient, columns + {g1}, sizes_before, helper);
#pragma unroll
                for (int k = 0; k < PAIRS; ++k)
                    if (pairs[k].left >= 0)
                        products[k] = products_of<ROWS, SHARES>(columns, pairs[k], part, products[k]);
            }}
            meet<Shape::BLOCK>();
#pragma unroll 1
            for (int turn = 0; turn < (ROLES ? 1 : 2); ++turn) {{
                if (ROLES ? multiplies : turn == (warp < WARPS / 2 ? 1 : 0)) {{
                    if (multiplies && now > 0) add_gradient<Shape>(before_it, gradient, sizes_before, sum);
                }} else if (helps && now < mine && has_rows) {{
                    const bool present = at < n;
                    const Masks masks = {{mask_key == nullptr ? 0u : *mask_key,
                        static_cast<unsigned>(first) + tile_of(now) * ROWS, 0u}};
    {lines}
                }}
            }}
            meet<Shape::BLOCK>();
            if (helps && now > 0) request(now - 1 + STAGES);
        }}
    }}
"""


@dataclass(frozen=True)
class PassReading:
    """Samples and targets that the kernel reads.

    pixel : type of stored numbers. learns_input : True if the targets are the samples. has_shares : True if samples
    have shares in their mean.
    """

    pixel: str
    learns_input: bool
    has_shares: bool


@cache
def pass_source(links: Links, plan: PassPlan, reading: PassReading) -> KernelSource:
    """Kernel of forward pass, loss, backward pass and the blocks' sums of all gradients."""
    types: dict[str, str] = {}
    functions = [function_types(each, types) for each in links.functions]
    numbers = range(1, links.last + 1)
    text = _PASS.format(
        name=PASS,
        widths="-".join(map(str, links.widths)),
        loss=type(links.loss).__name__,
        types="".join(f"struct {name} {{ {fields} }};\n" for name, fields in types.items()),
        pixel=reading.pixel,
        goal="int" if links.has_labels else reading.pixel if reading.learns_input else "float",
        inputs=links.widths[0],
        outputs=links.widths[1],
        rows=plan.rows,
        splits=plan.splits,
        stages=STAGES,
        shares=plan.shares,
        pairs=plan.pairs,
        resident=plan.resident,
        block=plan.block,
        small=sum(count for _, _, count in small_sums(links)),
        parameters=", ".join(
            f"const float* __restrict__ w{k}" + f", const float* __restrict__ b{k}" * links.has_bias[k] for k in numbers
        ),
        b1=f"k < {links.widths[1]} ? b1[k] : 0.0f" if links.has_bias[1] else "0.0f",
        hold="\n".join(_held(links, plan)),
        pair_lines="\n".join(f"        {line}" for line in _pairs(links, plan)),
        loops="\n".join(_loops(links, plan, reading, functions)),
        **{f"{name}_at": place for name, place in plan.places},
    )
    return sources.assembled(Path(__file__).with_name(f"{PASS}.cu"), text)


def _loops(links: Links, plan: PassPlan, reading: PassReading, functions: list[str]) -> list[str]:
    """Loop over the tiles by all threads, or one for each role, which has registers for its role alone."""
    both = ("", "true", "true")
    roles = ("if (helper < 0) ", "true", "false"), ("else ", "false", "true")
    return [
        _LOOP.format(
            otherwise=otherwise,
            multiplies=multiplies,
            helps=helps,
            g1=plan.columns("g1"),
            goals="int label = 0" if links.has_labels else f"float target[{quads(links.outputs)}] = {{}}",
            load_goals="label = goal[sample]" if links.has_labels else _targets(links),
            lines="\n".join(f"                    {line}" for line in _rows(links, plan, reading, functions)),
        )
        for otherwise, multiplies, helps in (roles if plan.block > THREADS else (both,))
    ]


def _held(links: Links, plan: PassPlan) -> list[str]:
    """Lines that bring the weights after the first layer to shared memory."""
    found = []
    for k, (inputs, outputs) in enumerate(pairwise(links.widths[1:]), 2):
        places = ", ".join(f"floats({plan.at(f'{name}{k}')})" for name in "frb")
        found.append(f"    hold_layer<{inputs}, {outputs}>({places}, w{k}, {_bias(links, k)});")
    return found


def _bias(links: Links, k: int) -> str:
    return f"b{k}" if links.has_bias[k] else "nullptr"


def _pairs(links: Links, plan: PassPlan) -> list[str]:
    """Lines that return the two columns of a number p of the gradient."""
    found = []
    for kind, k, count in small_sums(links):
        g, inputs = plan.columns(f"g{k}"), links.widths[k - 1]
        left, right = (f"p / {inputs}", f"{plan.columns(f'y{k - 1}')} + p % {inputs} * COLUMN") if kind == "w" else (
            "p", "0")  # fmt: skip
        found += [f"if (p < {count}) return {{{g} + {left} * COLUMN, {right}}};", f"p -= {count};"]
    return found


def _rows(links: Links, plan: PassPlan, reading: PassReading, functions: list[str]) -> list[str]:
    """Lines of the rows of a warp's samples, from the first layer's outputs to the gradient by them."""
    widths, last = links.widths, links.last

    def column(name: str) -> str:
        return f"columns + {plan.columns(name)} + row"

    found = [f"float y1[{quads(widths[1])}], s1[{quads(widths[1])}];"]
    found.append(f"add_parts<Shape>(parts, helping, exponents, floats({plan.at('b1')}), scale, y1);")
    for k in range(1, last + 1):
        if k > 1:
            n = quads(widths[k])
            bias = f"floats({plan.at(f'b{k}')})[4 * j + lane % 4]"
            shape = f"{widths[k - 1]}, {widths[k]}, COLUMN"
            found += [
                f"float y{k}[{n}], s{k}[{n}];",
                "#pragma unroll",
                f"for (int j = 0; j < {n}; ++j) y{k}[j] = {bias};",
                f"add_products<{shape}>({column(f'y{k - 1}')}, floats({plan.at(f'f{k}')}), y{k});",
            ]
        found.append(f"apply<{functions[k]}>(y{k}, s{k}, masks, row);")
        if k < last:
            found += [f"to_columns<{widths[k]}, COLUMN>({column(f'y{k}')}, y{k});", "__syncwarp();"]
    found += [f"float g{last}[{quads(widths[last])}];"]
    found += [
        "#pragma unroll",
        f"for (int j = 0; j < {quads(widths[last])}; ++j) g{last}[j] = y{last}[j];",
        _loss(links, reading),
        f"go_back<{functions[last]}>(g{last}, y{last}, s{last});",
        f"to_columns<{widths[last]}, COLUMN>({column(f'g{last}')}, g{last});",
    ]
    for k in range(last, 1, -1):
        found += [
            "__syncwarp();",
            f"float g{k - 1}[{quads(widths[k - 1])}] = {{}};",
            f"add_products<{widths[k]}, {widths[k - 1]}, COLUMN>"
            f"({column(f'g{k}')}, floats({plan.at(f'r{k}')}), g{k - 1});",
            f"go_back<{functions[k - 1]}>(g{k - 1}, y{k - 1}, s{k - 1});",
            f"to_columns<{widths[k - 1]}, COLUMN>({column(f'g{k - 1}')}, g{k - 1});",
        ]
    return [*found, "raise(sizes_now, g1);"]


def _loss(links: Links, reading: PassReading) -> str:
    """Line of the loss: its gradient takes the place of the outputs' copy."""
    last, weighted = links.last, str(reading.has_shares).lower()
    if isinstance(links.loss, CrossEntropyLoss):
        shapes = f"{links.outputs}, {str(links.loss.is_plain).lower()}, {weighted}"
        smoothing = f"{float(links.loss.label_smoothing)!r}f"
        return f"label_loss<{shapes}>(g{last}, label, setting, {smoothing}, its, present, found);"
    shapes = f"{loss.number(links.loss)}, {links.outputs}, {weighted}"
    return f"element_loss<{shapes}>(g{last}, target, setting, its, present, found);"


def _targets(links: Links) -> str:
    return f"load_targets<{links.outputs}>(target, goal + sample * {links.outputs}, goal_scale)"
