"""Source of a persistent kernel: assembled for a net, a batch size, a sample type and an optimizer.

The text is one CUDA file: a step is one line for each phase (phases.cuh), with all shapes as compile-time constants.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...device import source as sources
from ...device.source import KernelSource
from ...errors import ConfigError
from ...nets import CrossEntropyLoss, Net
from ...optimizers import Optimizer
from ..kernelwise.layout import ParameterLayout
from .plan import PersistentPlan, PhaseTile

#: Name of the kernel in every source.
KERNEL = "persistent_epochs"

PIXELS = {np.dtype(np.uint8): "unsigned char", np.dtype(np.float32): "float"}

#: Quads of a sample of the next batch, at most, that a lane holds in registers.
HELD = 8

_RULE = re.compile(r"\bupdate_one<(\w+)>")

_TEXT = """\
// Whole epochs of net {net} in one launch, batch {batch}, {optimizer}: {team}.
#include "{step}"
#include "gather.cuh"
#include "phases.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) {kernel}(
    const {pixel}* samples, float scale, const int* labels, const float* targets, const unsigned* orders, int count,
    int batch, int first, int steps, int total, float* params, float* slot1, float* slot2, float limit,
    const float4* numbers, int constant,
    float* work, int* target, unsigned* arrived, double* lost, long long* hits, double* loss, long long* correct
) {{
    Team<{in_grid}> team(arrived);
    const Parts parts = {{loss == nullptr ? nullptr : lost, hits}};
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
{pointers}
    Gather<{pixel}, {inputs}, line({inputs}), {held}> gather = {{samples, labels, scale, orders, count, batch, steps}};
    int n = gather.start(first);
{into_rows}
    gather.finish(x_even, target);
    {rule} rule(Numbers(numbers + (constant ? 0 : 2 * first), nullptr));
    team.meet();
    for (int step = first; step < first + total; ++step) {{
        const bool odd = (step - first) % 2 != 0, more = step + 1 < first + total;
        const float* const x = odd ? x_odd : x_even;
        const int* const label = target + (odd ? {batch} : 0);
        int next = 0;
{phases}
        write_loss(team, parts, {tiles}, {mean}, loss + step, correct + step);
        if (more && !constant) rule = {rule}(Numbers(numbers + 2 * (step + 1), nullptr));
        team.meet();
        n = next;
    }}
{from_rows}
}}
"""

# The next batch is requested while blocks wait after the first phase, and stored while they wait after the second.
_REQUESTED = "if (more) next = gather.start(step + 1);"
_GATHERED = "if (more) gather.finish(odd ? x_even : x_odd, target + (odd ? 0 : {batch}));"


def persistent_source(
    net: Net, batch: int, samples: np.dtype, optimizer: Optimizer, plan: PersistentPlan
) -> KernelSource:
    """The kernel's source, with all headers in it."""
    text = _TEXT.format(
        net=net.name.replace("\n", " "),
        batch=batch,
        optimizer=optimizer.name,
        team=f"{plan.blocks} blocks that wait as {'a grid' if plan.in_grid else 'a cluster'}",
        step=(optimizer.folder() / "step.cu").as_posix(),
        kernel=KERNEL,
        pixel=PIXELS[samples],
        in_grid=str(plan.in_grid).lower(),
        pointers=_pointers(batch, optimizer, plan),
        into_rows="\n".join(_moves(net, optimizer, plan, "true")),
        from_rows="\n".join(_moves(net, optimizer, plan, "false")),
        held=min(HELD, -(-plan.layers[0].inputs // 128)),
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


def _rule(optimizer: Optimizer) -> str:
    """Name of the struct with the optimizer's step, in its step.cu."""
    path = optimizer.folder() / "step.cu"
    found = _RULE.search(path.read_text(encoding="utf-8"))
    if found is None:
        raise ConfigError(
            f"{path}: the rung persistent calls the struct that update_one<...> of update.cuh takes, "
            "and the file has none"
        )
    return found[1]


def line(features: int) -> int:
    """Floats from row to row of activations and gradients, as `line` of phases.cuh."""
    return (features + 4) // 4 * 4


def _buffers(plan: PersistentPlan, batch: int, slots: int) -> list[tuple[str, int, int, int]]:
    """Arrays of the scratch memory: name, offset in floats, rows and features.

    x_even and x_odd have the batches of even and odd steps, y1, y2, ... the layers' outputs but the last one's, g1,
    g2, ... the gradients by their outputs before a ReLU, w1, w2, ... weights with biases, and v1, v2, ... and u1, u2,
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
    """Initial content of the scratch memory, float32: zeros, and the ones that activations end in."""
    buffers = _buffers(plan, batch, slots)
    _, offset, rows, features = buffers[-1]
    out = np.zeros(offset + rows * line(features), np.float32)
    for name, offset, rows, features in buffers:
        if name[0] in "xy":
            out[offset : offset + rows * line(features)].reshape(rows, -1)[:, features] = 1
    return out


def _pointers(batch: int, optimizer: Optimizer, plan: PersistentPlan) -> str:
    """Declarations of the arrays of `_buffers`."""
    buffers = _buffers(plan, batch, len(optimizer.slots))
    return "\n".join(f"    float* const {name} = work + {offset};" for name, offset, _, _ in buffers)


def _moves(net: Net, optimizer: Optimizer, plan: PersistentPlan, into_rows: str) -> list[str]:
    """Lines that move parameters and slots from the trainer's flat arrays into rows, or back."""
    layout, lines = ParameterLayout(net), []
    starts = {place.name: start for place, start in zip(layout.places, layout.starts, strict=True)}
    for number, each in enumerate(plan.layers, start=1):
        w, b = (starts[f"{each.number}.{name}"] for name in ("weight", "bias"))
        for flat, rows in [("params", "w"), ("slot1", "v"), ("slot2", "u")][: 1 + len(optimizer.slots)]:
            shape = f"<{each.inputs}, {each.outputs}, {into_rows}>"
            lines.append(f"    move_rows{shape}({flat}, {rows}{number}, {w}, {b}, thread, threads);")
    return lines


def _phases(net: Net, plan: PersistentPlan, batch: int, slots: int, rule: str) -> list[str]:
    """Lines of a step: forward, loss, and backward; blocks meet once more after the loss is written."""
    last, meetings, lines = len(plan.layers), 0, []

    def meet() -> None:
        nonlocal meetings
        meetings += 1
        between = {1: [_REQUESTED], 2: [_GATHERED.format(batch=batch)]}.get(meetings, [])
        lines.extend(["team.arrive();", *between, "team.wait();"])

    for number, (each, tile) in enumerate(zip(plan.layers, plan.forward, strict=True), start=1):
        shape = f"<{tile}, {each.inputs}, {each.outputs}, {str(each.relu).lower()}>"
        layer = f"(team, {'x' if number == 1 else f'y{number - 1}'}, w{number}"
        if number < last:
            lines.append(f"team.passed(forward{shape}{layer}, y{number}, n));")
        elif isinstance(net.loss, CrossEntropyLoss):
            lines.append(f"team.passed(classify{shape}{layer}, label, g{number}, parts, n));")
        else:
            lines.append(
                f"team.passed(reconstruct{shape}{layer}, targets == nullptr ? x : targets, "
                f"targets == nullptr ? nullptr : label, g{number}, parts, n));"
            )
        meet()
    for number in range(last, 1, -1):
        lines.append(_input_gradient(plan, number))
        if number < last:
            lines.append(_weight_gradient(plan, number + 1, slots, rule))
        meet()
    lines += [_weight_gradient(plan, number, slots, rule) for number in (2, 1) if number <= last]
    return lines if meetings > 1 else [*lines, _GATHERED.format(batch=batch)]


def _input_gradient(plan: PersistentPlan, number: int) -> str:
    """Line of the gradient by the input of a layer, counted from 1."""
    each, before, tile = plan.layers[number - 1], plan.layers[number - 2], plan.inputs[number - 1]
    shape = f"<{tile}, {each.inputs}, {each.outputs}, {str(before.relu).lower()}>"
    return f"team.passed(input_gradient{shape}(team, g{number}, w{number}, y{number - 1}, g{number - 1}, n));"


def _weight_gradient(plan: PersistentPlan, number: int, slots: int, rule: str) -> str:
    """Line of a layer's weight gradient and update, counted from 1."""
    each, tile = plan.layers[number - 1], plan.weights[number - 1]
    x = "x" if number == 1 else f"y{number - 1}"
    arrays = ", ".join([f"w{number}", *(f"{name}{number}" for name in "vu"[:slots]), *["nullptr"] * (2 - slots)])
    stepper = f"Stepper<{rule}>{{{arrays}, limit, rule}}"
    return f"team.passed(weight_gradient<{tile}, {each.inputs}, {each.outputs}>(team, g{number}, {x}, {stepper}, n));"


def _loss_tiles(net: Net, plan: PersistentPlan) -> str:
    """Number of the tiles whose losses are added up, as an expression of n."""
    tile: PhaseTile = plan.forward[-1]
    rows = f"pieces(n, {4 * tile.down})"
    return (
        rows
        if isinstance(net.loss, CrossEntropyLoss)
        else f"{rows} * pieces({plan.layers[-1].outputs}, {4 * tile.across})"
    )
