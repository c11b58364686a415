"""Plan of a small chain: samples of a block, and places of weights and activations in its shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ...device import Limits
from ..engine.kernels import ceil_div
from ..linear import short_gradients

THREADS = 256
#: Most samples.
FEW = 512
#: Samples of a block.
SAMPLES = (1, 2, 4, 8)
#: Pieces of the layer with most weights; outputs that a warp computes together.
PARTS, GROUP = (1, 2, 3, 4, 6, 8), 16

#: Bytes of weights a cycle that reach one block, and all blocks together, as seen on an H200
#: (docs/notes/persistent.md); multiply-adds a cycle of a multiprocessor, of which 128 are the peak.
BLOCK_BYTES, ALL_BYTES, MULTIPLY_ADDS = 40, 1400, 90
#: Cycles that a layer takes next to its arithmetic, and those of a launch of its own in a graph.
LAYER_CYCLES, LAUNCH_CYCLES = 400, 4000
#: Cost of a plan with layers in pieces, fitted to five nets on an H100 (docs/notes/graph.md): a constant in cycles, and
#: a multiple of the estimate.
PIECES_CYCLES, PIECES_FACTOR = 19_000, 2.1
#: Launches that a layer too large for `short_gradients` needs more than others, if it has launches of its own.
FURTHER = 9


def padded(width: int) -> int:
    """Floats of shared memory for a row of `width` numbers: the next multiple of 4, as in layers.cuh."""
    return ceil_div(width, 4) * 4


@dataclass(frozen=True)
class Piece:
    """Consecutive outputs of a linear layer, whose weights are in shared memory at the same time.

    layer : number of the layer, from 1. first : the piece's first output. inputs, outputs : numbers of them in the
    piece.
    """

    layer: int
    first: int
    inputs: int
    outputs: int

    @property
    def size(self) -> int:
        """Floats of shared memory that the piece's weights take, rows and columns filled up to fours."""
        return padded(self.outputs) * padded(self.inputs)


@dataclass(frozen=True)
class Copy:
    """Copy of a piece's weights to shared memory. place : offset in floats."""

    piece: Piece
    place: int


@dataclass(frozen=True)
class ChainPlan:
    """Plan of a chain of linear layers.

    widths : of the input and of each layer's output. samples : of a block.
    rows : offset in floats of the input's and of each layer's rows, further : of the other rows, in their order.
    sums : offset of the rows of a backward pass's sums over pieces.
    passes : piece of each pass, of layers 1 to the last, then from the last one back; the first `turn` are forward.
    copies : copies that start before each of the passes. weights : offset of the weights of each pass.
    shared : bytes of shared memory.
    """

    widths: tuple[int, ...]
    samples: int
    rows: tuple[int, ...]
    further: tuple[int, ...]
    sums: int
    passes: tuple[Piece, ...]
    turn: int
    copies: tuple[tuple[Copy, ...], ...]
    weights: tuple[int, ...]
    shared: int

    @property
    def is_divided(self) -> bool:
        """True if layers are in pieces."""
        return self.turn > len(self.widths) - 1

    @property
    def has_dx(self) -> bool:
        """True if the gradient by the input is computed."""
        return self.passes[-1].layer == 1 and len(self.passes) > self.turn


@cache
def fastest(
    widths: tuple[int, ...], n: int, limits: Limits, has_dx: bool, further: tuple[int, ...] = ()
) -> ChainPlan | None:
    """Plan with the least estimated time for n samples; None if they are too many, or nothing fits.

    has_dx : True if the gradient by the input is computed. further : widths of a sample's rows but its activations.
    """
    if n > FEW:
        return None
    found = [_placed(widths, further, samples, limits, has_dx) for samples in SAMPLES]
    return min((plan for plan in found if plan is not None), key=lambda plan: cycles(plan, n, limits), default=None)


def planned(
    widths: tuple[int, ...], n: int, limits: Limits, has_dx: bool, further: tuple[int, ...] = (), launches: int = 0
) -> ChainPlan | None:
    """Plan as `fastest`; None also if launches for each layer are faster.

    launches : how many these are; at least one for each pass.
    """
    best = fastest(widths, n, limits, has_dx, further)
    if best is None:
        return None
    passes, taken = max(launches, 2 * len(widths) - 3 + has_dx), cycles(best, n, limits)
    if best.is_divided:
        large = sum(not short_gradients.fits(limits, n, *layer) for layer in pairwise(widths))
        taken, passes = PIECES_CYCLES + PIECES_FACTOR * taken, passes + FURTHER * large
    return best if taken <= LAUNCH_CYCLES * passes else None


def cycles(plan: ChainPlan, n: int, limits: Limits) -> float:
    """Estimated cycles of forward and backward pass: bytes and arithmetic overlap but for the first copy."""
    blocks = ceil_div(n, plan.samples)
    copied = 4 * sum(copy.piece.size for copies in plan.copies for copy in copies)
    at_once = min(blocks, limits.multiprocessors)
    copying = copied / min(BLOCK_BYTES, ALL_BYTES / at_once)
    computing = sum(piece.size * plan.samples / MULTIPLY_ADDS + LAYER_CYCLES for piece in plan.passes)
    return (max(copying, computing) + min(copying, computing) / 2) * ceil_div(blocks, limits.multiprocessors)


def _placed(
    widths: tuple[int, ...], further: tuple[int, ...], samples: int, limits: Limits, has_dx: bool
) -> ChainPlan | None:
    """Plan with `samples` a block: all weights in places of their own, or layers, or pieces of them, in turn."""
    starts, at = [], 0
    for width in (*widths, *further):
        starts.append(at)
        at += samples * padded(width)
    room = limits.shared_opt_in // 4 - 128 - at  # labels and what else is static
    layers = [_pieces(layer, *pair, 1) for layer, pair in enumerate(pairwise(widths), 1)]
    whole = [piece for layer in layers for piece in layer]
    sums, sizes = at, [piece.size for piece in whole]
    if sum(sizes) > room:
        found = _divided(whole, room, samples * padded(max(widths)))
        if found is None:
            return None
        layers, sizes = found
        at += samples * padded(max(widths)) if any(len(layer) > 1 for layer in layers) else 0
    passes = [piece for layer in layers for piece in layer]
    turn = len(passes)
    passes += [piece for layer in reversed(layers[not has_dx :]) for piece in reversed(layer)]
    turns, held = _in_turn(passes, len(sizes))
    places = [at + sum(sizes[:slot]) for slot in range(len(sizes))]
    return ChainPlan(
        widths, samples, tuple(starts[: len(widths)]), tuple(starts[len(widths) :]), sums, tuple(passes), turn,
        tuple(tuple(Copy(piece, places[slot]) for piece, slot in copies) for copies in turns),
        tuple(places[slot] for slot in held), 4 * (at + sum(sizes)),
    )  # fmt: skip


def _divided(whole: list[Piece], room: int, sums: int) -> tuple[list[list[Piece]], list[int]] | None:
    """Pieces of each layer and sizes of the slots that they take turns in, as few pieces as leave room for two; None if
    none do. sums : floats for sums over pieces.
    """
    largest = max(piece.size for piece in whole)
    for parts in PARTS:
        layers = [
            _pieces(piece.layer, piece.inputs, piece.outputs, ceil_div(piece.size * parts, largest)) for piece in whole
        ]
        size = max(piece.size for layer in layers for piece in layer)
        count = sum(map(len, layers))
        slots = min((room - (sums if count > len(whole) else 0)) // size, count)
        if slots >= 2:
            return layers, [size] * slots
    return None


def _pieces(layer: int, inputs: int, outputs: int, parts: int) -> list[Piece]:
    """Pieces of about equal numbers of outputs, whole groups of a warp."""
    count = outputs if parts == 1 else ceil_div(ceil_div(outputs, parts), GROUP) * GROUP
    return [Piece(layer, first, inputs, min(count, outputs - first)) for first in range(0, outputs, count)]


def _in_turn(order: list[Piece], slots: int) -> tuple[list[list[tuple[Piece, int]]], list[int]]:
    """Copies of (piece, slot) before each pass, and each pass's slot: a slot that is free takes the piece needed next.

    order : piece of each pass. A slot is free after a pass if its piece is needed later than all that could replace it.
    """
    held: list[Piece] = []
    turns: list[list[tuple[Piece, int]]] = []
    weights = []
    for number, piece in enumerate(order):
        copies: list[tuple[Piece, int]] = []
        ahead = list(dict.fromkeys(order[number:]))[:slots]  # pieces needed next, this one first
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
        weights.append(held.index(piece))
    return turns, weights
