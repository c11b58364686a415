"""Two layers whose hidden units are divided over a cluster, with their weights in registers for a whole launch: sizes,
estimate and the kernel's text. The phases are in units.cuh, the products in tile_products.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..held import held_line
from ..products import LinearLayer
from ..shared_arrays import KERNEL_HEAD, declarations, moves, offsets, stepped
from ..tiles import THREADS

#: Hidden units of a block, the rows of a tensor core's product; classes at most, which a thread sums at once.
UNITS, CLASSES = 16, 16

#: Inputs of a tile of weights, and tiles of a warp at most: 8 registers of a thread each.
INPUTS, HELD = 16, 8

#: Samples of a batch at most, a thread for each; of a pass over the weights; and bytes of the warps' sums of a pass.
BATCH, PASS, PARTS = THREADS, 64, 32 << 10

#: Cycles of a step beyond what follows, of a sample, of each of a warp's rounds of losses, of a tile of a warp for a
#: sample of bytes and of floats, and of a tile for a slot: fitted to eight nets on an H200, within 8 % of each.
STEP, SAMPLE, LOSSES, TILE_BYTES, TILE_FLOATS, TILE_SLOT = 3900, 30, 700, 9.4, 30, 230

#: Cycles until the first samples have arrived, and bytes that arrive in a cycle, where a step waits for them.
LATENCY, ARRIVING = 1000, 26

TEXT = (
    """\
// Whole epochs of net {net} in one launch, batch {batch}, {optimizer}: its hidden units divided over {blocks} blocks.
// division: fast
#include "{step}"
#include "units.cuh"

"""
    + KERNEL_HEAD
    + """\
    using Divided = Units<{pixel}, {inputs}, {hidden}, {outputs}, {blocks}, {batch}, {relu}, {slots}, {stages}>;
    __shared__ Barrier sent[3], brought[Divided::STAGES];
    CountedTeam<{blocks}, 2> crew(sent, arrived, [](int) {{ return 0; }});
    CountedTeam<{blocks}, 1, Divided::CLERK> clerk(sent + 2, arrived, [](int) {{ return 0; }});
    float* const held = tile_memory();
{places}
    const Choice choice = {{chosen, first, first + total, count, batch, steps}};
    choice.fill(orders, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS);
    for (int i = threadIdx.x; i < {floats}; i += THREADS) held[i] = 0.0f;
    if (threadIdx.x < Divided::STAGES) barrier_init(brought + threadIdx.x, 1);
    barriers_ready();
    pieces_written();
    crew.meet(0);
    Gatherer<Divided> gatherer(samples, labels, choice, stages, wanted, brought);
    gatherer.request(0, total == 1);
    FirstLayer<Divided> layer;
    layer.template move<true>(params, slot1, slot2, held_slots, {w1}, {b1});
{into}{scaled}
    {rule} rule(Numbers(numbers + (constant ? 0 : 2 * first), nullptr));
    const float by = Divided::BYTES ? scale * BYTE_UNIT : scale;
    const int own_row = threadIdx.x / 32 * 8, own_pair = own_row + threadIdx.x % 4 * 2;
    BatchSizes sizes(choice);
    gatherer.finish(0);
    __syncthreads();
    for (int step = first; step < first + total; ++step) {{
        const int number = step - first, n = sizes.size(), stage = number % Divided::STAGES * Divided::ROWS;
        const bool more = number + 1 < total;
        crew.begin(step, [&](int wait) {{ return Divided::bytes(wait, n); }});
        if (Divided::clerk()) {{
            if (number > 0) clerk.wait(1);  // before others can send the next ones: they wait for this block's outputs
            clerk.begin(step, [&](int) {{ return Divided::bytes(2, n); }});
        }}
        gatherer.wait(number);
        const unsigned char* const batch_x = reinterpret_cast<const unsigned char*>(stages) + stage * Divided::LINE;
        const Samples<Divided> x = {{batch_x, n, {scales}}};
        const UnitScales scales = layer.tiles.scales(x);
        {rule} next = rule;
        if (more && !constant) next = {rule}(Numbers(numbers + 2 * (step + 1), nullptr));
#pragma unroll 1
        for (int row = 0; row < Divided::ROWS; row += 64) {{
            float sum[Divided::PASS / 8][4] = {{}};
            layer.tiles.outputs(sum, x, scales, row);
            if (row > 0) __syncthreads();
            store_parts<Divided>(reinterpret_cast<float4*>(parts), sum, scales, by);
            __syncthreads();
            if (own_row >= Divided::PASS) continue;
            float own[4];
            add_parts<Divided>(own, reinterpret_cast<const float4*>(parts), layer.bias);
            reinterpret_cast<float4*>(z)[row * 4 + threadIdx.x] = make_float4(own[0], own[1], own[2], own[3]);
            send_outputs<Divided>(own, w, sums, received, row + own_row, n, Sent{{crew.at(1)}});
        }}
        // While blocks wait for each other: the loss of the step before.
        if (Divided::clerk() && loss != nullptr && number > 0)
            write_mean_loss<Divided>(losses, number - 1, sizes.before(), loss + step - 1, correct + step - 1);
        crew.wait(1);
        own_losses<Divided, {last_relu}>(received, w + 16 * Divided::OUT_LINE,
            reinterpret_cast<const int*>(wanted) + stage, logits, g, losses + number % 2 * 4 * {batch}, n,
            Sent{{crew.at(2)}}, Sent{{clerk.at(1)}});
        crew.wait(2);
        // All blocks have sent outputs, and read the batch before this one no more.
        if (Divided::STAGES > 1 && more) gatherer.request(number + 1, number + 2 == total);
        float own_sums[Divided::SUMS] = {{}};
        unsigned largest[2] = {{0, 0}};
#pragma unroll 1
        for (int row = 0; row < Divided::ROWS && own_row < Divided::PASS; row += 64) {{
            const float4 own = reinterpret_cast<const float4*>(z)[row * 4 + threadIdx.x];
            backward_units<Divided>(own_sums, largest, own, w, g, dz, row + own_pair, n, by);
        }}
        store_sums<Divided>(own_sums, largest, gradients, reinterpret_cast<unsigned*>(most));
        if (Divided::STAGES > 1 && more) gatherer.finish(number + 1);
        __syncthreads();
        layer.update(x, dz, gradient_scales<Divided>(reinterpret_cast<const unsigned*>(most)), gradients, held_slots,
            limit, rule);
        step_second<Divided>(Stepper<{rule}>{{{second}, limit, rule}}, gradients);
        if (Divided::STAGES == 1 && more) {{
            __syncthreads();
            gatherer.request(number + 1, number + 2 == total);
            gatherer.finish(number + 1);
            __syncthreads();
        }}
        rule = next;
        sizes.next();
    }}
    if (Divided::clerk()) {{
        clerk.wait(1);
        if (loss != nullptr) write_mean_loss<Divided>(losses, total - 1, sizes.before(), loss + first + total - 1,
            correct + first + total - 1);
    }}
    layer.template move<false>(params, slot1, slot2, held_slots, {w1}, {b1});
    __syncthreads();
{back}
    crew.meet(3);
}}
"""
)


@dataclass(frozen=True)
class UnitsPlan:
    """Shared memory of two layers whose hidden units are divided over a cluster.

    pixel_bytes : bytes of a stored number of a sample.
    stages : batches in shared memory, one or two: with two the next is copied while a step is computed.
    places : offset in floats of each array, by name.
    floats : floats of all arrays together.
    cycles : estimated cycles of a step.
    """

    pixel_bytes: int
    stages: int
    places: dict[str, int]
    floats: int
    cycles: float


def why_not_units(chain: tuple[LinearLayer, ...], batch: int | None) -> str | None:
    """Reason why the registers of a cluster cannot hold two layers, or train such a batch; None if they can."""
    most = INPUTS * HELD * THREADS // 32
    for value, limit, what in (
        (chain[0].inputs, most, "inputs"), (chain[0].outputs, 16 * UNITS, "hidden units"),
        (chain[1].outputs, CLASSES, "classes"), (batch or 0, BATCH, "samples of a batch"),
    ):  # fmt: skip
        if value > limit:
            return f"weights=registers takes {limit:,} {what} at most, and here are {value:,}"
    return None


def blocks_of(hidden: int, requested: int | None, largest: int) -> int | None:
    """Number of blocks that hold all hidden units, a power of two from 2 to `largest`; None if there is none, or not
    the requested one.
    """
    fitting = [blocks for blocks in (2, 4, 8, 16) if blocks <= largest and blocks * UNITS >= hidden]
    return min(fitting, default=None) if requested is None else requested if requested in fitting else None


def units_plan(
    chain: tuple[LinearLayer, ...], batch: int, blocks: int, slots: int, pixel_bytes: int, capacity: int
) -> UnitsPlan | None:
    """Plan for two layers and a batch; None if not even one batch fits `capacity` bytes of shared memory."""
    for stages in (2, 1):
        plan = _plan(chain, batch, blocks, slots, pixel_bytes, stages)
        if 4 * plan.floats <= capacity:
            return plan
    return None


def _plan(
    chain: tuple[LinearLayer, ...], batch: int, blocks: int, slots: int, pixel_bytes: int, stages: int
) -> UnitsPlan:
    first, outputs = chain[0], chain[1].outputs
    whole = PASS if batch > PASS else -(-batch // 16) * 16
    rows, tiles, owned = -(-batch // whole) * whole, -(-first.inputs // INPUTS), -(-batch // blocks)
    held, wide = -(-tiles // (THREADS // 32)), held_line(outputs)
    sizes = {
        "stages": stages * rows * (tiles * pixel_bytes | 1) * 4,
        "parts": PARTS // 4,
        "held_slots": slots * held * 8 * THREADS,
        "wanted": stages * rows,
    }
    sizes |= {"w": 17 * wide} | {"vu"[slot]: 17 * wide for slot in range(slots)}
    sizes |= {"sums": PASS * -(-outputs // 4) * 4, "received": blocks * owned * wide, "g": -(-batch // 4) * 4 * wide}
    sizes |= {"logits": owned * wide, "losses": 2 * 4 * batch}
    sizes |= {"dz": 16 * (-(-rows // 32) * 32 + 8), "gradients": 8 * 8 * sums_line(outputs), "most": 16 * 8}
    if pixel_bytes > 1:
        sizes |= {"up": INPUTS * tiles, "down": INPUTS * tiles}
    if rows > PASS:
        sizes["z"] = rows // PASS * 4 * THREADS
    places, floats = offsets(sizes)
    places.setdefault("z", places["parts"])  # a thread stores its sum where it alone has read a part
    return UnitsPlan(
        pixel_bytes, stages, places, floats, _cycles(first.inputs, (rows, owned), held, slots, pixel_bytes, stages)
    )


def _cycles(inputs: int, rows: tuple[int, int], held: int, slots: int, pixel_bytes: int, stages: int) -> float:
    """Estimated cycles of a step. rows : samples of a batch, and those that a block owns; held : tiles of a warp."""
    every, owned = rows
    cycles: float = STEP + SAMPLE * every + LOSSES * -(-owned // (THREADS // 32))
    cycles += held * every * (TILE_BYTES if pixel_bytes == 1 else TILE_FLOATS) + TILE_SLOT * held * slots
    return cycles + (LATENCY + every * inputs * pixel_bytes / ARRIVING if stages == 1 else 0)


def sums_line(outputs: int) -> int:
    """Pitch in floats of a thread's sums, as `SUMS_LINE` of units.cuh."""
    return (-(-(3 * outputs + 2) // 16) * 16 // 4 | 1) * 4


def stored_rows(x: np.ndarray) -> np.ndarray:
    """Samples (samples, numbers) as rows with zeros at the end, so that a row is a multiple of 16 bytes, as the copy
    engine needs.
    """
    flat = np.ascontiguousarray(x).reshape(len(x), -1)
    whole = -(-flat.shape[1] * flat.itemsize // 16) * 16 // flat.itemsize
    return flat if flat.shape[1] == whole else np.pad(flat, ((0, 0), (0, whole - flat.shape[1])))


def input_scales(x: np.ndarray) -> np.ndarray:
    """Scale of each input and its inverse, float32 (2, whole tiles), powers of two that bring its largest size to 2^14
    up to 2^15: halves have a far smaller range than floats.
    """
    flat = np.abs(x.reshape(len(x), -1))
    largest = np.where(np.isfinite(flat), flat, 0).max(0, initial=0)
    exponents = np.zeros(-(-flat.shape[1] // INPUTS) * INPUTS, np.int32)
    exponents[: flat.shape[1]] = np.where(largest > 0, 15 - np.frexp(largest)[1], 0)
    exponents = np.clip(exponents, -112, 126)
    return np.ldexp(np.float32(1), np.stack([exponents, -exponents])).astype(np.float32)


def units_text(
    plan: UnitsPlan,
    chain: tuple[LinearLayer, ...],
    blocks: int,
    slots: int,
    at: tuple[int, int, int, int],
    words: dict[str, object],
) -> str:
    """CUDA text of the kernel; at : offsets of both layers' weights and biases in the flat parameters."""
    tiles = -(-chain[0].inputs // INPUTS) * INPUTS
    scaled = f"\n    for (int i = threadIdx.x; i < {2 * tiles}; i += THREADS) up[i] = work[i];"
    return TEXT.format(
        **words,
        blocks=blocks,
        inputs=chain[0].inputs,
        hidden=chain[0].outputs,
        outputs=chain[1].outputs,
        relu=str(chain[0].relu).lower(),
        last_relu=str(chain[1].relu).lower(),
        slots=slots,
        stages=plan.stages,
        floats=plan.floats,
        places=declarations(plan.places),
        w1=at[0],
        b1=at[1],
        **moves("move_second", slots, at[2:]),
        scaled=scaled if plan.pixel_bytes > 1 else "",
        scales="up, down" if plan.pixel_bytes > 1 else "nullptr, nullptr",
        second=stepped(slots),
    )
