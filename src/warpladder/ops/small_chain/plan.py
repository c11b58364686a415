"""Plan of a small chain: samples of a block, and places of weights and activations in its shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ...device import Limits
from ..engine.kernels import ceil_div

THREADS = 256
#: Most samples.
FEW = 512
#: Samples of a block.
SAMPLES = (1, 2, 4, 8)

#: Bytes of weights a cycle that reach one block, and all blocks together, as seen on an H200
#: (docs/notes/persistent.md); multiply-adds a cycle of a multiprocessor, of which 128 are the peak.
BLOCK_BYTES, ALL_BYTES, MULTIPLY_ADDS = 40, 1400, 90
#: Cycles that a layer takes next to its arithmetic, and those of a launch of its own in a graph.
LAYER_CYCLES, LAUNCH_CYCLES = 400, 4000


def padded(width: int) -> int:
    """Floats of a row of `width` numbers, in whole quads, as in layers.cuh."""
    return ceil_div(width, 4) * 4


@dataclass(frozen=True)
class Copy:
    """Copy of a layer's weights to shared memory. layer : its number from 1 on. place : offset in floats."""

    layer: int
    place: int


@dataclass(frozen=True)
class ChainPlan:
    """Plan of a chain of linear layers.

    widths : of the input and of each layer's output. samples : of a block.
    rows : offset in floats of the input's and of each layer's rows, further : of the other rows, in their order.
    copies : copies that start before each of the passes of layers 1 to the last, then from the last one back, by the
    number of the pass from 0 on.
    weights : offset of the weights of each pass. shared : bytes of shared memory.
    """

    widths: tuple[int, ...]
    samples: int
    rows: tuple[int, ...]
    further: tuple[int, ...]
    copies: tuple[tuple[Copy, ...], ...]
    weights: tuple[int, ...]
    shared: int

    @property
    def has_dx(self) -> bool:
        """True if the gradient by the input is computed."""
        return len(self.weights) == 2 * (len(self.widths) - 1)

    @property
    def passes(self) -> tuple[int, ...]:
        """Layer of each pass."""
        layers = len(self.widths) - 1
        return (*range(1, layers + 1), *range(layers, layers - (len(self.weights) - layers), -1))


@cache
def planned(
    widths: tuple[int, ...], n: int, limits: Limits, has_dx: bool, further: tuple[int, ...] = (), launches: int = 0
) -> ChainPlan | None:
    """Plan with the least estimated time for n samples; None if they are too many, nothing fits, or launches for each
    layer are faster.

    has_dx : True if the gradient by the input is computed. further : widths of a sample's rows but its activations.
    launches : how many others take; at least one for each pass.
    """
    if n > FEW:
        return None
    found: list[tuple[float, ChainPlan]] = []
    for samples in SAMPLES:
        plan = _placed(widths, further, samples, limits, has_dx)
        if plan is not None:
            found.append((cycles(plan, n, limits), plan))
    if not found:
        return None
    least, best = min(found, key=lambda each: each[0])
    return best if least <= LAUNCH_CYCLES * max(launches, len(best.passes)) else None


def _weights(inputs: int, outputs: int) -> int:
    """Floats of a layer's weights in shared memory."""
    return padded(outputs) * padded(inputs)


def cycles(plan: ChainPlan, n: int, limits: Limits) -> float:
    """Estimated cycles of forward and backward pass: bytes and arithmetic overlap but for the first copy."""
    sizes = [_weights(*layer) for layer in pairwise(plan.widths)]
    blocks = ceil_div(n, plan.samples)
    copied = 4 * sum(sizes[copy.layer - 1] for copies in plan.copies for copy in copies)
    at_once = min(blocks, limits.multiprocessors)
    copying = copied / min(BLOCK_BYTES, ALL_BYTES / at_once)
    computing = sum(sizes[layer - 1] * plan.samples / MULTIPLY_ADDS + LAYER_CYCLES for layer in plan.passes)
    return (max(copying, computing) + min(copying, computing) / 2) * ceil_div(blocks, limits.multiprocessors)


def _placed(
    widths: tuple[int, ...], further: tuple[int, ...], samples: int, limits: Limits, has_dx: bool
) -> ChainPlan | None:
    """Plan with `samples` a block: each layer's weights in a place of their own, or in turn in as many as fit."""
    sizes = [_weights(*layer) for layer in pairwise(widths)]
    layers = len(sizes)
    order = [*range(1, layers + 1), *range(layers, 0 if has_dx else 1, -1)]
    places, at = [], 0
    for width in (*widths, *further):
        places.append(at)
        at += samples * padded(width)
    rows, others = tuple(places[: len(widths)]), tuple(places[len(widths) :])
    room = limits.shared_opt_in // 4 - 128 - at  # labels and what else is static
    if sum(sizes) <= room:
        held = [at + sum(sizes[:number]) for number in range(layers)]
        copies = [tuple(Copy(number + 1, place) for number, place in enumerate(held)), *[()] * (len(order) - 1)]
        at += sum(sizes)
        return ChainPlan(
            widths, samples, rows, others, tuple(copies), tuple(held[layer - 1] for layer in order), 4 * at
        )
    slots = min(room // max(sizes), layers)
    if slots < 2:
        return None
    turns, weights = _in_turn(order, slots)
    size = max(sizes)
    return ChainPlan(
        widths, samples, rows, others,
        tuple(tuple(Copy(layer, at + slot * size) for layer, slot in copies) for copies in turns),
        tuple(at + slot * size for slot in weights), 4 * (at + slots * size),
    )  # fmt: skip


def _in_turn(order: list[int], slots: int) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """Copies of (layer, slot) before each pass, and each pass's slot: a slot that is free takes the layer needed next.

    order : layer of each pass. A slot is free after a pass if its layer is needed later than all that could replace it.
    """
    held: list[int] = []
    turns: list[list[tuple[int, int]]] = []
    weights = []
    for number, layer in enumerate(order):
        copies: list[tuple[int, int]] = []
        ahead = list(dict.fromkeys(order[number:]))[:slots]  # layers needed next, this one first
        for wanted in ahead:
            if wanted in held:
                continue
            if len(held) < slots:
                held.append(wanted)
                copies.append((wanted, len(held) - 1))
                continue
            slot = next(slot for slot, old in enumerate(held) if old not in ahead)
            held[slot] = wanted
            copies.append((wanted, slot))
        turns.append(copies)
        weights.append(held.index(layer))
    return turns, weights
