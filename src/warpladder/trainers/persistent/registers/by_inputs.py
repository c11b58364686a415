"""One layer whose inputs are divided over a cluster, with its weights in registers for a whole launch: sizes, estimate
and the kernel's text. The phases are in inputs.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..products import LinearLayer
from ..shared_arrays import KERNEL_HEAD, declarations, offsets
from ..tiles import THREADS

#: Inputs of a tile of weights, outputs of a band of it, and tiles times bands of a warp at most: 8 registers each.
INPUTS, BAND, HELD = 16, 16, 8

#: Samples of a batch at most, and outputs; batches in shared memory.
BATCH, CLASSES, STAGES = 512, 64, 3

#: Cycles of a step beyond what follows; of a tile of the block; of a band of outputs for a group of eight samples, and
#: for one that the block owns; of a band of a tile for a group, and for a group of floats; and of a slot of a band of a
#: warp's tile: fitted to 13 layers on an H200, within 16 % of the fastest number of blocks of each.
STEP, TILE, GROUP, OWN_GROUP, TILE_GROUP, FLOATS, SLOT = 2600, 106, 96, 826, 23, 98, 468

TEXT = (
    """\
// Whole epochs of net {net} in one launch, batch {batch}, {optimizer}: its inputs divided over {blocks} blocks.
// division: fast
#include "{step}"
#include "inputs.cuh"

"""
    + KERNEL_HEAD
    + """\
    using Divided = Inputs<{pixel}, {inputs}, {outputs}, {blocks}, {batch}, {relu}, {slots}>;
    __shared__ Barrier sent[3];
    CountedTeam<{blocks}, 2, Divided::COMPUTING> crew(sent, arrived, [](int) {{ return 0; }});
    CountedTeam<{blocks}, 1, Divided::CLERK> clerk(sent + 2, arrived, [](int) {{ return 0; }});
    float* const held = tile_memory();
{places}
    const Choice choice = {{chosen, first, first + total, count, batch, steps}};
    choice.fill(orders, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS);
    for (int i = threadIdx.x; i < {floats}; i += THREADS) held[i] = 0.0f;
    crew.meet(0);
    SliceGather<Divided> gather(samples, labels, choice, stages, wanted);
    if (!Divided::computes()) gather.request(0, total), gather.request(1, total);
    SliceWeights<Divided> weights;
    SliceBias<Divided> bias;
    if (Divided::computes()) weights.template move<true>(params, slot1, slot2, {w});
    if (bias.here()) bias.template move<true>(params, slot1, slot2, {b}), bias.publish(biases);
{scaled}    {rule} rule(Numbers(numbers + (constant ? 0 : 2 * first), nullptr));
    const float by = Divided::BYTES ? scale * BYTE_UNIT : scale;
    uint4* const fragments = reinterpret_cast<uint4*>(factors);
    float2* const scales = reinterpret_cast<float2*>(inverse);
    BatchSizes sizes(choice);
    Samples<Divided> x = {{nullptr, sizes.size(), {scaling}}};
    if (Divided::computes()) weights.publish(fragments, scales, x);
    crew.begin(first, [&](int wait) {{ return Divided::bytes(wait, x.n); }});
    if (Divided::clerk()) clerk.begin(first, [&](int) {{ return Divided::bytes(2, x.n); }});
    wait_for_copies<1>();
    __syncthreads();
    for (int step = first; step < first + total; ++step) {{
        const int number = step - first, stage = number % Divided::STAGES * Divided::ROWS;
        const bool more = number + 1 < total;
        {rule} next = rule;
        if (more && !constant) next = {rule}(Numbers(numbers + 2 * (step + 1), nullptr));
        if (Divided::computes()) {{
            x.rows = reinterpret_cast<const unsigned char*>(stages) + stage * Divided::LINE;
            partial_outputs<Divided>(x, fragments, scales, received, by, Sent{{crew.at(1)}});
            crew.wait(1);
            for (int r = 0; 8 * (r * {blocks} + Divided::rank()) < x.n; ++r)
                own_losses<Divided>(received, biases, reinterpret_cast<const int*>(wanted) + stage, dx,
                    losses + number % 2 * 4 * {batch}, r, x.n, Sent{{clerk.at(1)}});
        }}
        __syncthreads();
        if (Divided::computes()) {{
            for (int r = 0; 8 * (r * {blocks} + Divided::rank()) < x.n; ++r)
                send_gradients<Divided>(dx, gradients, r, Sent{{crew.at(2)}});
            crew.wait(2);
            weights.update(x, gradients, by, limit, rule);
            if (more) weights.publish(fragments, scales, x);
        }} else {{
            gather.request(number + 2, total);
            if (Divided::clerk() && loss != nullptr && number > 0)
                write_mean_loss<Divided>(losses, number - 1, sizes.before(), loss + step - 1, correct + step - 1);
            crew.wait(2);
            if (bias.here()) bias.update(gradients, x.n, limit, rule), bias.publish(biases);
            if (Divided::clerk()) clerk.wait(1);  // before others can send the next ones: they wait for this block
            wait_for_copies<1>();
        }}
        rule = next;
        sizes.next();
        if (more) {{
            x.n = sizes.size();
            crew.begin(step + 1, [&](int wait) {{ return Divided::bytes(wait, x.n); }});
            if (Divided::clerk()) clerk.begin(step + 1, [&](int) {{ return Divided::bytes(2, x.n); }});
        }}
        __syncthreads();
    }}
    if (Divided::clerk() && loss != nullptr)
        write_mean_loss<Divided>(losses, total - 1, sizes.before(), loss + first + total - 1,
            correct + first + total - 1);
    if (Divided::computes()) weights.template move<false>(params, slot1, slot2, {w});
    if (bias.here()) bias.template move<false>(params, slot1, slot2, {b});
    crew.meet(3);
}}
"""
)


@dataclass(frozen=True)
class InputsPlan:
    """Shared memory of a layer whose inputs are divided over a cluster.

    pixel_bytes : bytes of a stored number of a sample.
    places : offset in floats of each array, by name.
    floats : floats of all arrays together.
    cycles : estimated cycles of a step.
    """

    pixel_bytes: int
    places: dict[str, int]
    floats: int
    cycles: float


def why_not_inputs(layer: LinearLayer, batch: int | None) -> str | None:
    """Reason why the registers of a cluster cannot hold a layer, or train such a batch; None if they can."""
    most = INPUTS * THREADS // 64 * 16 * (HELD // -(-min(layer.outputs, CLASSES) // BAND))
    for value, limit, what in (
        (layer.outputs, CLASSES, "classes"), (layer.inputs, most, "inputs"), (batch or 0, BATCH, "samples of a batch"),
    ):  # fmt: skip
        if value > limit:
            return f"weights=registers takes {limit:,} {what} at most, and here are {value:,}"
    return None


def inputs_plan(layer: LinearLayer, batch: int, blocks: int, slots: int, pixel_bytes: int) -> InputsPlan | None:
    """Plan for a layer and a batch, on a cluster of `blocks` blocks, for an optimizer with `slots` slots; None if the
    weights do not fit the registers of so few.
    """
    warps = THREADS // 64  # those that compute, and as many gather
    every, bands, groups = -(-layer.inputs // INPUTS), -(-layer.outputs // BAND), -(-batch // 8)
    tiles = -(-every // blocks)
    held, owned, each = -(-tiles // warps), -(-groups // blocks), min(-(-groups // warps), 2 if bands > 2 else 4)
    if held * bands > HELD:
        return None
    rows = -(-groups // (warps * each)) * warps * each * 8
    sizes = {
        "stages": STAGES * rows * (tiles * pixel_bytes | 1) * 4,
        "wanted": STAGES * rows,
        "factors": tiles * bands * 2 * 32 * 4,
        "inverse": tiles * bands * 16,
        "received": owned * blocks * 8 * bands * 16,
        "gradients": groups * bands * 132,
        "dx": owned * bands * 160,
        "biases": bands * 16,
        "losses": 2 * 4 * batch,
    }
    if pixel_bytes > 1:
        sizes |= {"up": INPUTS * tiles, "down": INPUTS * tiles}
    places, floats = offsets(sizes)
    cycles = STEP + TILE * tiles + bands * (GROUP * groups + OWN_GROUP * owned + TILE_GROUP * tiles * groups)
    cycles += bands * held * (SLOT * slots + (FLOATS * groups if pixel_bytes > 1 else 0))
    return InputsPlan(pixel_bytes, places, floats, cycles)


def inputs_text(
    plan: InputsPlan, layer: LinearLayer, blocks: int, slots: int, at: tuple[int, int], words: dict[str, object]
) -> str:
    """CUDA text of the kernel; at : offsets of weight and bias in the flat parameters."""
    every = -(-layer.inputs // INPUTS) * INPUTS
    scaled = (
        "    for (int i = threadIdx.x; i < 16 * Divided::count(); i += THREADS) {\n"
        f"        up[i] = work[16 * Divided::first() + i], down[i] = work[{every} + 16 * Divided::first() + i];\n"
        "    }\n    __syncthreads();\n"
    )
    return TEXT.format(
        **words,
        blocks=blocks,
        inputs=layer.inputs,
        outputs=layer.outputs,
        relu=str(layer.relu).lower(),
        slots=slots,
        floats=plan.floats,
        places=declarations(plan.places),
        w=at[0],
        b=at[1],
        scaled=scaled if plan.pixel_bytes > 1 else "",
        scaling="up, down" if plan.pixel_bytes > 1 else "nullptr, nullptr",
    )
