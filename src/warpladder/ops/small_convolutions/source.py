"""Sources of the three kernels, assembled for a net's stages: a type and a few lines for each stage."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ...device import source as sources
from ...device.source import KernelSource
from ...optimizers import Optimizer
from ..update.rule import gradient_end
from .plan import FrontPlan, Grid, StagePlan, filters, quads

#: Names of the kernels.
FORWARD, BACKWARD, FINISH = "small_convolutions", "small_convolution_gradients", "finish_small_convolutions"

_STAGE = """\
struct Stage{number} {{
    static constexpr int C = {s.c}, H = {s.h}, W = {s.w}, O = {s.o}, K = {s.k}, STRIDE = {s.stride};
    static constexpr int HIGH = {s.high}, WIDE = {s.wide}, POOL = {s.pool}, ROWS = {s.rows}, COLUMNS = {s.columns};
    static constexpr int FUNCTION = {s.function}, STEP = {step};
    static constexpr bool IS_LATE = {late};
    static constexpr int FORWARD = {p.forward}, BACKWARD = {p.backward}, WEIGHTS = {p.weights}, SPLITS = {p.splits};
    using Input = {input};
    using Gradient = {gradient};
    static __device__ __forceinline__ float slope() {{ return {s.slope!r}f; }}
}};
"""

_HEAD = """\
// {title}
constexpr int THREADS = {threads};
#include "convolutions.cuh"

{stages}"""

_FORWARD = """\
extern "C" __global__ void __launch_bounds__(THREADS, 1) {name}(
    const {pixel}* __restrict__ source, float scale, const unsigned* __restrict__ order, const int* __restrict__ step,
    const int* __restrict__ labels, int* __restrict__ target, {parameters},
    float* __restrict__ x, {outputs}, const float* __restrict__ numbers, float* __restrict__ numbers_now,
    int n, int whole, int offset
) {{
    float* const shared = shared_floats();
    const int now = *step;
    if (numbers != nullptr && blockIdx.x == 0 && threadIdx.x < 8)
        numbers_now[threadIdx.x] = numbers[8LL * now + threadIdx.x];
{filters}
    commit_copies();
    clear(shared, {inputs});
    __syncthreads();
    for (int i = blockIdx.x; i < n; i += gridDim.x) {{
        gather<Stage1>(shared, source, scale, order, now * static_cast<long long>(whole) + offset, i, x, labels,
            target);
        wait_for_copies<0>();
        __syncthreads();
{lines}
    }}
}}
"""

_BACKWARD = """\
extern "C" __global__ void __launch_bounds__(THREADS, 1) {name}(
    const float* __restrict__ x, {outputs}, const float* __restrict__ dy, {weights}float* __restrict__ rows, int n
) {{
    float* const shared = shared_floats();
{filters}
    clear(shared, {cleared});
    __syncthreads();
    for (int i = blockIdx.x; i < n; i += gridDim.x) {{
{lines}
    }}
    for (int t = threadIdx.x; t < {total}; t += THREADS)
        rows[blockIdx.x * {total}LL + t] = shared[{sums} + t];
}}
"""

_FINISH = """\
// Sums of the blocks' weight gradients of stages of {title}.
{include}#include "finish_sum.cuh"

extern "C" __global__ void __launch_bounds__({threads}) {name}(
    const float* __restrict__ rows, {gradients}, {flat}int count
) {{
    const {ends};
    const int t = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    float* const to = {places}nullptr;
    finish_sum<{threads} / COLUMNS>(rows, count, {total}, t, to, ends);
}}
"""


def _grid(grid: Grid) -> str:
    return f"Grid<{grid.planes}, {grid.rows}, {grid.pitch}, {grid.top}, {grid.left}>"


def _head(title: str, plan: FrontPlan) -> str:
    """Beginning of a source: the types of all stages."""
    types = [
        _STAGE.format(
            number=number, s=each.stage, p=each, late=str(each.stage.is_late).lower(), input=_grid(each.input),
            gradient=_grid(each.gradient), step=each.stage.stride if each.has_dx else 1,
        )
        for number, each in enumerate(plan.stages, 1)
    ]  # fmt: skip
    return _HEAD.format(title=title, threads=plan.threads, stages="\n".join(types))


def _title(plan: FrontPlan) -> str:
    return ", ".join(f"{each.stage.c} to {each.stage.o} channels" for each in plan.stages)


def _arrays(plan: FrontPlan, const: str) -> list[str]:
    """Parameters z and, of stages with a pool, argmax of each stage."""
    found = []
    for number, each in enumerate(plan.stages, 1):
        found.append(f"{const}float* __restrict__ z{number}")
        if each.stage.pool > 1:
            found.append(f"{const}unsigned char* __restrict__ argmax{number}")
    return found


def _sample(each: StagePlan, number: int) -> tuple[str, str]:
    """Addresses of sample i in a stage's z and argmax."""
    size = each.stage.o * each.stage.rows * each.stage.columns
    return f"z{number} + i * {size}LL", f"argmax{number} + i * {size}LL" if each.stage.pool > 1 else "nullptr"


@cache
def forward_source(plan: FrontPlan, pixel: str) -> KernelSource:
    """Kernel that gathers a block's samples and computes all stages. pixel : type of stored numbers."""
    stages = plan.stages
    inputs = [sum(each.input.size for each in stages[:number]) for number in range(len(stages) + 1)]
    place = unpooled = inputs[-1]
    unpooled += sum(filters(each.stage.o, each.forward, each.stage.c, each.stage.k) for each in stages)
    lines, loads = [], []
    for number, each in enumerate(stages, 1):
        s, last = each.stage, number == len(stages)
        loads.append(f"    load_filters<Stage{number}>(shared + {place}, w{number});")
        bias = f"b{number}" if s.has_bias else "nullptr"
        following = f"Stage{number if last else number + 1}::Input"
        to = "nullptr" if last else f"shared + {inputs[number]}"
        z, argmax = _sample(each, number)
        lines.append(
            f"        stage_forward<Stage{number}, {following}>(shared + {inputs[number - 1]}, shared + {place}, "
            f"{bias}, shared + {unpooled}, {to}, {z}, {argmax});"
        )
        place += filters(s.o, each.forward, s.c, s.k)
    text = _head(f"Forward pass of stages of {_title(plan)}.", plan) + "\n" + _FORWARD.format(
        name=FORWARD, pixel=pixel, inputs=inputs[-1], filters="\n".join(loads), lines="\n".join(lines),
        outputs=", ".join(_arrays(plan, "")),
        parameters=", ".join(
            f"const float* __restrict__ w{number}" + f", const float* __restrict__ b{number}" * each.stage.has_bias
            for number, each in enumerate(stages, 1)
        ),
    )  # fmt: skip
    return sources.assembled(Path(__file__).with_name(f"{FORWARD}.cu"), text)


@cache
def backward_source(plan: FrontPlan) -> KernelSource:
    """Kernel of the sums over a block's samples of all stages' weight gradients, a row of them for each block."""
    stages = plan.stages
    places, at = [], 0
    for each in stages:
        places.append((at, at + each.input.size))
        at += each.input.size + each.gradient.size
    sums, own = at, []
    for each in stages:
        own.append((at, at + each.stage.weights))
        at += each.stage.weights + each.stage.o
    total, cleared = at - sums, sums + 4 * quads(at - sums)
    held, loads, at = {}, [], cleared
    for number, each in enumerate(stages, 1):
        if each.has_dx:
            held[number] = at
            loads.append(f"    load_reversed<Stage{number}>(shared + {at}, w{number});")
            at += filters(each.stage.c, each.backward, each.stage.o, each.stage.k)
    split, last = at, len(stages)
    from_z = [("x", stages[0].stage.c * stages[0].stage.h * stages[0].stage.w)]
    lines = []
    for number, each in enumerate(stages, 1):
        name, size = from_z[-1]
        lines.append(f"load_input<Stage{number}>(shared + {places[number - 1][0]}, {name} + i * {size}LL);")
        from_z.append((f"z{number}", each.stage.o * each.stage.rows * each.stage.columns))
    lines.append("commit_copies();")
    z, argmax = _sample(stages[-1], last)
    lines.append(f"load_gradient<Stage{last}>(shared + {places[-1][1]}, dy + i * {from_z[-1][1]}LL, {z}, {argmax});")
    lines += ["wait_for_copies<0>();", "__syncthreads();"]
    for number in range(last, 0, -1):
        (input, gradient), (dw, db) = places[number - 1], own[number - 1]
        lines.append(
            f"add_weights<Stage{number}>(shared + {input}, shared + {gradient}, shared + {split}, shared + {dw}, "
            f"shared + {db});"
        )
        if number > 1:
            lines.append(
                f"stage_backward<Stage{number}, Stage{number - 1}>(shared + {gradient}, shared + {held[number]}, "
                f"shared + {input}, shared + {places[number - 2][1]}, {_sample(stages[number - 2], number - 1)[1]});"
            )
    text = _head(f"Backward pass of stages of {_title(plan)}.", plan) + "\n" + _BACKWARD.format(
        name=BACKWARD, outputs=", ".join(_arrays(plan, "const ")), cleared=cleared, total=total, sums=sums,
        weights="".join(f"const float* __restrict__ w{number}, " for number in held),
        filters="\n".join(loads), lines="\n".join(f"        {line}" for line in lines),
    )  # fmt: skip
    return sources.assembled(Path(__file__).with_name(f"{BACKWARD}.cu"), text)


@cache
def finish_source(plan: FrontPlan, optimizer: Optimizer | None) -> KernelSource:
    """Kernel of the sums of the blocks' rows, and of the optimizer's step unless None."""
    gradients, places, at = [], "", 0
    for number, each in enumerate(plan.stages, 1):
        places += f"t < {at + each.stage.weights} ? dw{number} + (t - {at}) : "
        gradients.append(f"float* dw{number}")
        at += each.stage.weights
        to = f"db{number} + (t - {at})" if each.stage.has_bias else "nullptr"
        places += f"t < {at + each.stage.o} ? {to} : "
        gradients += [f"float* db{number}"] * each.stage.has_bias
        at += each.stage.o
    end = gradient_end(optimizer)

    text = _FINISH.format(
        title=_title(plan), threads=plan.threads, name=FINISH, include=end.include, gradients=", ".join(gradients),
        flat=end.parameters, ends=end.declaration, places=places, total=at,
    )  # fmt: skip
    return sources.assembled(Path(__file__).with_name(f"{FINISH}.cu"), text)
