"""Source of a persistent kernel: assembled for a net, a batch size, a sample type and an optimizer.

The text is one CUDA file: a step is one line for each phase (phase_lines.py, phases.cuh), with all shapes as
compile-time constants.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...device import source as sources
from ...device.source import KernelSource
from ...errors import ConfigError
from ...nets import CrossEntropyLoss, Net
from ...ops.update.rule import rule_file, rule_name
from ...optimizers import Optimizer
from ..kernelwise.layout import ParameterLayout
from .held_source import copies_of, counted_team, gathered, held_phases, held_samples
from .phase_lines import (
    factor_maps,
    forward,
    input_gradient,
    line,
    own_rows,
    request_forward,
    request_input_gradient,
    request_samples,
    request_weight_gradient,
    team_of,
    weight_gradient,
)
from .plan import PersistentPlan
from .registers.by_inputs import inputs_text
from .registers.by_units import UnitsPlan, units_text
from .shared_arrays import KERNEL_HEAD

#: Name of the kernel in every source.
KERNEL = "persistent_epochs"

PIXELS = {np.dtype(np.uint8): "unsigned char", np.dtype(np.float32): "float"}

#: Quads of a sample of the next batch, at most, that a lane holds in registers.
HELD = 8


_TEXT = (
    """\
// Whole epochs of net {net} in one launch, batch {batch}, {optimizer}: {team}.
{copies}#include "{step}"
#include "gather.cuh"
#include "{templates}"
{head}#include "weight_gradient.cuh"
{division}
"""
    + KERNEL_HEAD
    + """\
{made}    {team_type} team{team_arguments};
{crew}
    const Parts parts = {{loss == nullptr ? nullptr : lost, hits}};
    const Parts own = {{loss == nullptr ? nullptr : lost + {own}, hits + {own}}};
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
{pointers}
    const Choice choice = {{chosen, first, first + total, count, batch, steps}};
    choice.fill(orders, thread, threads);
    team.meet(0);
    Gather<{pixel}, {inputs}, line({inputs}), {held}{warps}> gather = {{samples, labels, scale, choice}};
    int n = gather.start(first);
{into_rows}
    gather.finish(x_even, target{also});
{first_written}    {rule} rule(Numbers(numbers + (constant ? 0 : 2 * first), nullptr));
    team.meet(0);
{begun}    for (int step = first; step < first + total; ++step) {{
        const bool odd = (step - first) % 2 != 0, more = step + 1 < first + total;
        const float* const x = odd ? x_odd : x_even;
        const int* const label = target + (odd ? {batch} : 0);
        {note}const int mine = {mine};
        int next = 0;
{phases}
        write_loss(team, parts, {tiles}, {mean}, loss + step, correct + step);
        if (more && !constant) rule = {rule}(Numbers(numbers + 2 * (step + 1), nullptr));
{written}        team.arrive();
        n = next;
{ahead}        team.wait({last_wait});
    }}
{from_rows}
}}
"""
)

# Barriers of the pieces that the copy engine brings, and maps of the arrays.
_MADE = """\
    make_piece_barriers();
    const TensorMap* const tile_maps = reinterpret_cast<const TensorMap*>(map_words) + blockIdx.x / {cluster} * {maps};
"""

# The next batch is requested while blocks wait after the first phase, and stored while they wait after the second.
_REQUESTED = "if (more) next = gather.start(step + 1);"
_GATHERED = "if (more) gather.finish(odd ? x_even : x_odd, target + (odd ? 0 : {batch}){also});"


def persistent_source(
    net: Net, batch: int, samples: np.dtype, optimizer: Optimizer, plan: PersistentPlan
) -> KernelSource:
    """Source of the kernel, with all headers in it."""
    if plan.registers is not None:
        text = _divided(net, batch, samples, optimizer, plan)
        return sources.assembled(Path(__file__).with_name("registers") / f"{KERNEL}.cu", text)
    maps = len(factor_maps(plan))
    text = _TEXT.format(
        net=net.name.replace("\n", " "),
        batch=batch,
        optimizer=optimizer.name,
        **_teams(plan),
        last_wait=len(waits(plan)) - 1,
        division="// division: fast\n" if plan.on_tensor_cores else "",
        head='#include "head.cuh"\n' if plan.has_head else "",
        copies="#define COPIES_TILES true\n" if maps else "",
        first_written="    pieces_written();\n" if maps else "",
        made=_MADE.format(cluster=plan.cluster if plan.rows is not None else plan.blocks, maps=maps) if maps else "",
        begun="".join(f"    {each}\n" for each in request_samples(plan, "false", "n")),
        ahead="".join(f"        if (more) {each}\n" for each in request_samples(plan, "!odd", "n")),
        written="        pieces_written();\n" if plan.brings or maps else "",
        step=rule_file(optimizer).as_posix(),
        kernel=KERNEL,
        pixel=PIXELS[samples],
        pointers=_pointers(batch, optimizer, plan),
        into_rows="\n".join([*_moves(net, optimizer, plan, "true"), *_all_there(plan)]),
        from_rows="\n".join(_moves(net, optimizer, plan, "false")),
        held=min(HELD, -(-plan.layers[0].inputs // 128)),
        **_gathering(plan),
        rule=_rule(optimizer),
        inputs=plan.layers[0].inputs,
        phases="\n".join(
            f"        {line}" for line in _phases(net, plan, batch, len(optimizer.slots), _rule(optimizer))
        ),
        tiles=_loss_tiles(net, plan),
        mean="n"
        if isinstance(net.loss, CrossEntropyLoss)
        else f"static_cast<long long>(n) * {plan.layers[-1].outputs}",
    )
    return sources.assembled(Path(__file__).with_name(f"{KERNEL}.cu"), text)


def _divided(net: Net, batch: int, samples: np.dtype, optimizer: Optimizer, plan: PersistentPlan) -> str:
    """CUDA source of the kernel for one Linear layer whose input features are divided over the blocks of a cluster, or
    two whose hidden units are.

    samples : stored dtype of the data set.
    """
    layer, layout = plan.layers[0], ParameterLayout(net)
    starts = {place.name: start for place, start in zip(layout.places, layout.starts, strict=True)}
    words: dict[str, object] = {
        "net": net.name.replace("\n", " "), "batch": batch, "optimizer": optimizer.name, "kernel": KERNEL,
        "step": rule_file(optimizer).as_posix(), "pixel": PIXELS[samples], "rule": _rule(optimizer),
    }  # fmt: skip
    slots = len(optimizer.slots)
    if isinstance(plan.registers, UnitsPlan):
        both = tuple(starts[f"{each.number}.{name}"] for each in plan.layers for name in ("weight", "bias"))
        return units_text(plan.registers, plan.layers, plan.blocks, slots, both, words)  # type: ignore[arg-type]
    assert plan.registers is not None
    places = starts[f"{layer.number}.weight"], starts[f"{layer.number}.bias"]
    return inputs_text(plan.registers, layer, plan.blocks, slots, places, words)


def waits(plan: PersistentPlan) -> list[str]:
    """Names of the waits of a step, in the order of their numbers."""
    layers = [f"layer {each.number}" for each in plan.layers]
    forward = [f"the forward pass of {layer}" for layer in layers]
    return [
        "the first batch", *forward, *(f"the input gradient of {layer}" for layer in layers[:0:-1][plan.has_head :]),
        "the updates",
    ]  # fmt: skip


def _teams(plan: PersistentPlan) -> dict[str, str]:
    """Values, by their names in the kernel's template, that depend on which blocks train together."""
    if plan.in_grid:
        kind = {"team_type": "GridTeam", "team_arguments": "(arrived)", "note": "team.step = step; "}
        words = f"{plan.blocks} blocks that wait as a grid"
    else:
        kind = {"team_type": f"ClusterTeam<{plan.blocks}>", "team_arguments": "", "note": ""}
        words = f"{plan.blocks} blocks that wait as a cluster"
    if plan.rows is None:
        return kind | {"team": words, "crew": "    constexpr int from = 0;", "own": "0", "mine": "n"}
    crew = f"    ClusterTeam<{plan.cluster}> crew;"
    if plan.sends:
        crew = counted_team(plan)
    clusters = f"{crew}\n    const int from = blockIdx.x / {plan.cluster} * {plan.rows};"
    if plan.held is not None:
        if plan.brings:
            count = copies_of(plan)
            clusters += f"\n    __shared__ Barrier brought[{count}];\n    Pieces<{count}> slices(brought);"
        clusters += f"\n    float* const held = tile_memory();\n    float* const held_x = held + {held_samples(plan)};"
    return kind | {
        "team": f"{words}, and in clusters of {plan.cluster}, each with {plan.rows} samples",
        "crew": clusters,
        "own": "blockIdx.x" if plan.held is not None else f"blockIdx.x / {plan.cluster} * {_tiles_of(plan)}",
        "mine": f"max(0, min({plan.rows}, n - from))",
    }


def _gathering(plan: PersistentPlan) -> dict[str, str]:
    """Words of the text for the gathering of samples; with weights in shared memory, into all blocks of a cluster."""
    if plan.held is None:
        return {"templates": "phases.cuh", "warps": "", "also": ""}
    warps = "ByBlock" if plan.sends else "ByCluster"
    return {"templates": "held.cuh", "warps": f", {warps}<{plan.cluster}, {plan.rows}>", "also": _also(plan)}


def _all_there(plan: PersistentPlan) -> list[str]:
    """Line with the wait before the first store into another block's shared memory; [] if there is no such store."""
    return ["    crew.meet(0);"] if plan.held is not None and plan.cluster > 1 else []


def _also(plan: PersistentPlan) -> str:
    """Last argument of the call that stores samples; empty unless they are in shared memory."""
    if plan.held is None:
        return ""
    kind, inputs = ("OwnSample", "") if plan.sends else ("SpreadSample", f", {plan.cluster}")
    return f", {kind}<{plan.layers[0].inputs}{inputs}>{{held_x, from}}"


def _tiles_of(plan: PersistentPlan) -> int:
    """Number of tiles of the last layer whose losses a cluster writes."""
    assert plan.rows is not None
    return -(-plan.rows // plan.forward[-1].rows) * -(-plan.layers[-1].outputs // plan.forward[-1].columns)


def _rule(optimizer: Optimizer) -> str:
    """Name of the struct with the optimizer's step, in its step.cu. Raises `ConfigError` if there is none."""
    found = rule_name(optimizer)
    if found is None:
        raise ConfigError(
            f"{rule_file(optimizer)}: the rung persistent calls the struct that update_one<...> of update.cuh takes, "
            "and the file has none"
        )
    return found


def buffers(plan: PersistentPlan, batch: int, slots: int) -> list[tuple[str, int, int, int]]:
    """Arrays of the scratch memory: name, offset in floats, rows and features.

    x_even and x_odd hold the batches of even and odd steps; y1, y2, ... the layers' outputs, except the last one's; g1,
    g2, ... the gradients by their outputs before a ReLU; w1, w2, ... weights with biases; v1, v2, ... and u1, u2,
    ... their slots.
    """
    widths, first = [each.outputs for each in plan.layers], plan.layers[0].inputs
    arrays = [("x_even", batch, first), ("x_odd", batch, first)]
    arrays += [(f"y{number}", batch, width) for number, width in enumerate(widths[:-1], start=1)]
    arrays += [(f"g{number}", batch, width) for number, width in enumerate(widths, start=1)]
    for name in "wvu"[: 1 + slots]:
        arrays += [(f"{name}{number}", each.outputs, each.inputs) for number, each in enumerate(plan.layers, start=1)]
    found, offset = [], 0
    for name, rows, features in arrays:
        found.append((name, offset, rows, features))
        offset += rows * line(features)
    return found


def initial_work(plan: PersistentPlan, batch: int, slots: int) -> np.ndarray:
    """Initial scratch memory (floats,) float32: zeros, and a one at the end of a row of activations, for the bias."""
    arrays = buffers(plan, batch, slots)
    _, offset, rows, features = arrays[-1]
    out = np.zeros(offset + rows * line(features), np.float32)
    for name, offset, rows, features in arrays:
        if name[0] in "xy":
            out[offset : offset + rows * line(features)].reshape(rows, -1)[:, features] = 1
    return out


def _pointers(batch: int, optimizer: Optimizer, plan: PersistentPlan) -> str:
    """CUDA declarations of the arrays of `_buffers`."""
    arrays = buffers(plan, batch, len(optimizer.slots))
    return "\n".join(f"    float* const {name} = work + {offset};" for name, offset, _, _ in arrays)


def _moves(net: Net, optimizer: Optimizer, plan: PersistentPlan, into_rows: str) -> list[str]:
    """Lines of CUDA that copy parameters and slots from the trainer's flat arrays into rows, or back."""
    layout, lines = ParameterLayout(net), []
    starts = {place.name: start for place, start in zip(layout.places, layout.starts, strict=True)}
    for number, each in enumerate(plan.layers, start=1):
        w, b = (starts[f"{each.number}.{name}"] for name in ("weight", "bias"))
        for flat, rows in [("params", "w"), ("slot1", "v"), ("slot2", "u")][: 1 + len(optimizer.slots)]:
            shape = f"<{each.inputs}, {each.outputs}, {into_rows}>"
            lines.append(f"    move_rows{shape}({flat}, {rows}{number}, {w}, {b}, thread, threads);")
    return lines


def _phases(net: Net, plan: PersistentPlan, batch: int, slots: int, rule: str) -> list[str]:
    """Lines of CUDA of a step: forward, loss, and backward; blocks wait for each other after the loss is written.

    A cluster with its own samples waits only for its blocks until all input gradients are computed.
    """
    last, meetings, lines, crew = len(plan.layers), 0, list[str](), team_of(plan)
    between = {1: _REQUESTED, 2: _GATHERED.format(batch=batch, also=_also(plan))}
    if plan.held is not None:
        found = held_phases(
            net, plan, lambda array, layer: own_rows(plan, array, layer), gathered(plan, *between.values())
        )
        return [*found, *(weight_gradient(plan, number, slots, rule) for number in range(last, 0, -1))]

    is_ahead = last > 1 and plan.rows is None
    written = ["pieces_written();"] if factor_maps(plan) else []

    def meet(team: str, ahead: list[str]) -> None:
        nonlocal meetings
        meetings += 1
        during = [between[meetings]] if meetings in between else []
        lines.extend([*written, f"{team}.arrive();", *during, *ahead, f"{team}.wait({meetings});"])

    for number in range(1, last + 1):
        lines.append(f"{crew}.passed({forward(net, plan, number)});")
        if number < last:
            meet(crew, request_forward(plan, number + 1))
        elif not plan.has_head:
            meet("team" if last == 1 else crew, request_input_gradient(plan, last))
    for number in range(last, 1, -1):
        if number < last or not plan.has_head:
            lines.append(f"{crew}.passed({input_gradient(plan, number)});")
        if number < last and plan.rows is None and number + 1 not in plan.late:
            lines.append(weight_gradient(plan, number + 1, slots, rule))
        if number > 2:
            meet(crew, request_input_gradient(plan, number - 1))
        else:
            meet("team", request_weight_gradient(plan, 2) if is_ahead else [])
    left = range(last, 0, -1) if plan.rows is not None else [*(each for each in (2, 1) if each <= last), *plan.late]
    lines += [weight_gradient(plan, number, slots, rule, is_ahead and number == 2) for number in left]
    return lines if meetings > 1 else [*lines, between[2]]


def _loss_tiles(net: Net, plan: PersistentPlan) -> str:
    """CUDA expression, in n, of the number of tiles whose losses are added."""
    tile = plan.forward[-1]
    down = f"pieces(n, {tile.rows})"
    if plan.held is not None:
        return f"pieces(n, {plan.rows}) * {plan.cluster}"
    if plan.rows is not None:  # only the last cluster with samples may have fewer than the others
        across = -(-plan.layers[-1].outputs // tile.columns)
        return f"n / {plan.rows} * {_tiles_of(plan)} + pieces(n % {plan.rows}, {tile.rows}) * {across}"
    if isinstance(net.loss, CrossEntropyLoss):
        return down
    return f"{down} * pieces({plan.layers[-1].outputs}, {tile.columns})"
