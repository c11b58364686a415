"""One layer whose inputs are divided over a cluster, with its weights in shared memory for a whole launch: sizes,
tiles, estimate and the kernel's text. The phases are in inputs.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass

from .held import LOSS, LOSS_ROWS, fastest_tile, held_line, slice_of, sums_of
from .products import THREADS, LinearLayer, PhaseTile
from .shared_arrays import declarations, moves, offsets, stepped

#: Quads of the next batch, at most, that a thread holds in registers.
HELD = 8

#: Cycles of a wait of the cluster, with the numbers that blocks send each other and all else that the estimate lacks:
#: 784-10 on an H100, 16,300 cycles a step.
EXCHANGE = 5750

TEXT = """\
// Whole epochs of net {net} in one launch, batch {batch}, {optimizer}: its inputs divided over {blocks} blocks.
#include "{step}"
#include "inputs.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) {kernel}(
    const {pixel}* samples, float scale, const int* labels, const float* targets, const unsigned* orders, int count,
    int batch, int first, int steps, int total, float* params, float* slot1, float* slot2, float limit,
    const float4* numbers, int constant,
    float* work, int* chosen, int* target, unsigned* arrived, double* lost, long long* hits, double* loss,
    long long* correct
) {{
    using Divided = Division<{inputs}, {outputs}, {blocks}, {batch}>;
{crew}
    float* const held = tile_memory();
{places}
    const Choice choice = {{chosen, first, first + total, count, batch, steps}};
    choice.fill(orders, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS);
    for (int i = threadIdx.x; i < {gradients}; i += THREADS) g[i] = 0.0f;
    crew.meet(0);
    SliceGather<{pixel}, Divided, {held}> gather = {{samples, labels, scale, choice, reinterpret_cast<int*>(rows)}};
    int n = gather.start(first);
{into}
    gather.finish(x_even, reinterpret_cast<int*>(label_even));
    {rule} rule(Numbers(numbers + (constant ? 0 : 2 * first), nullptr));
    crew.meet(0);
    for (int step = first; step < first + total; ++step) {{
        const bool odd = (step - first) % 2 != 0, more = step + 1 < first + total;
        const float* const x = odd ? x_odd : x_even;
        int next = 0;
        __syncthreads();
{announced}        partial_outputs<{forward}, Divided>(x, w, received, parts, n, {first_to});
        crew.arrive();
        if (more) next = gather.start(step + 1);
        crew.wait(1);
        owned_losses<Divided, {relu}>(
            received, reinterpret_cast<int*>(odd ? label_odd : label_even), logits, g, losses, n, {second_to}
        );
        crew.arrive();
        if (more) gather.finish(odd ? x_even : x_odd, reinterpret_cast<int*>(odd ? label_even : label_odd));
        crew.wait(2);
        if (loss != nullptr) write_losses<Divided>(losses, n, loss + step, correct + step);
        step_slice<{weights}, Divided>(g, x, Stepper<{rule}>{{{slices}, limit, rule}}, parts, n);
        if (more && !constant) rule = {rule}(Numbers(numbers + 2 * (step + 1), nullptr));
        n = next;
    }}
    __syncthreads();
{back}
    crew.meet(3);
}}
"""


@dataclass(frozen=True)
class InputsPlan:
    """Tiles and shared memory of a layer whose inputs are divided over a cluster.

    forward, weights : tiles of the outputs and of the weight gradient.
    places : offset in floats of each array, by name.
    floats : floats of all arrays together.
    cycles : estimated cycles of a step.
    """

    forward: PhaseTile
    weights: PhaseTile
    places: dict[str, int]
    floats: int
    cycles: float


def inputs_plan(layer: LinearLayer, batch: int, blocks: int, slots: int) -> InputsPlan:
    """Plan for a layer and a batch, on a cluster of `blocks` blocks, for an optimizer with `slots` slots."""
    part, outs = slice_of(layer.inputs + 1, blocks), slice_of(layer.outputs, 1)
    line, wide, whole = held_line(part), held_line(layer.outputs), -(-batch // 4) * 4
    forward, ahead = fastest_tile(batch, outs, part)
    weights, back = fastest_tile(outs, part, batch)
    sizes = {"x_even": whole * line, "x_odd": whole * line, "w": outs * line}
    sizes |= {"vu"[slot]: outs * line for slot in range(slots)}
    owned = -(-batch // blocks)
    sizes |= {"g": whole * wide, "received": blocks * owned * wide, "logits": owned * wide, "losses": 4 * blocks}
    sizes |= {"rows": whole, "label_even": whole, "label_odd": whole}
    sizes["parts"] = max(sums_of(forward), sums_of(weights))
    places, floats = offsets(sizes)
    cycles = ahead + back + 2 * EXCHANGE + LOSS + LOSS_ROWS * -(-owned // 8)
    return InputsPlan(forward, weights, places, floats, cycles)


def inputs_text(
    plan: InputsPlan,
    layer: LinearLayer,
    blocks: int,
    slots: int,
    at: tuple[int, int],
    words: dict[str, object],
    sends: bool,
) -> str:
    """CUDA text of the kernel; at : offsets of weight and bias in the flat parameters; sends : of the plan."""
    batch = int(str(words["batch"]))
    quads = -(-batch * slice_of(layer.inputs + 1, blocks) // (4 * THREADS))
    crew = f"ClusterTeam<{blocks}> crew;"
    if sends:
        crew = "__shared__ Barrier arrivals[2];\n    "
        crew += f"CountedTeam<{blocks}, 2> crew(arrivals, arrived, [](int) {{ return 0; }});"
    begin = "        crew.begin(step, [&](int wait) { return Divided::bytes(wait, n); });\n"
    return TEXT.format(
        **words,
        crew=f"    {crew}",
        announced=begin if sends else "",
        first_to="Sent{crew.at(1)}" if sends else "Stored{}",
        second_to="Sent{crew.at(2)}" if sends else "Stored{}",
        gradients=plan.places["received"] - plan.places["g"],
        blocks=blocks,
        inputs=layer.inputs,
        outputs=layer.outputs,
        relu=str(layer.relu).lower(),
        places=declarations(plan.places),
        **moves("move_slice", slots, at),
        held=min(HELD, quads),
        forward=plan.forward,
        weights=plan.weights,
        slices=stepped(slots),
    )
