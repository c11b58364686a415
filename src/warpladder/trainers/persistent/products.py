"""Matrix products of the phases of a step, their tiles, and the estimated cycles of a phase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...nets import CrossEntropyLoss, Net
from .tiles import THREADS, AnyTile, HeadTile, TensorPhaseTile, head_tile, multiply_add_tiles, tensor_tiles

#: Cycles that a product on tensor cores takes longer where no phase before it in a step has run its code.
CODE = 2350


@dataclass(frozen=True)
class LinearLayer:
    """Linear layer of the chain, with the ReLU after it.

    number : number of the layer in the net; its tensors are "<number>.weight" and "<number>.bias".
    inputs, outputs : features.
    relu : True if a ReLU follows.
    """

    number: int
    inputs: int
    outputs: int
    relu: bool


@dataclass(frozen=True)
class PhaseProduct:
    """Sizes of a phase's matrix product, and the order of its factors in memory.

    rows, columns, depth : m, n and k.
    inside : for each factor, True if neighbours in memory are neighbours in k.
    whole_rows : True if a tile must have all columns.
    loads : of a weight gradient, whose last column is the bias: numbers that its step loads for each parameter.
    bias : True if the last column is the bias; if tiles cover the other columns exactly, separate sums may compute it.
    """

    rows: int
    columns: int
    depth: int
    inside: tuple[bool, bool]
    whole_rows: bool = False
    bias: bool = False
    loads: int = 0

    def tiles(self, capacity: int, kind: str = "fma", places: int = THREADS) -> Iterator[AnyTile]:
        """Tiles that fit into `capacity` bytes of shared memory.

        kind : "fma" or "tensor", by multiply-adds or on tensor cores. places : largest number of 4 x 4
            patches of a tile by multiply-adds.
        """
        least = self.columns if self.whole_rows else 1
        if kind == "fma":
            for tile in multiply_add_tiles(self.depth, least):
                if tile.down * tile.across <= places and tile.shared(self.inside) <= capacity:
                    yield tile
                    if self.bias and (self.columns - 1) % tile.columns == 0 and tile.rows <= THREADS:
                        yield replace(tile, separate=True)
        else:
            for other in tensor_tiles(self.depth, least, capacity, self.inside, self.loads):
                yield other
                if self.loads and (self.columns - 1) % other.columns == 0:
                    yield replace(other, separate=True)

    def count(self, tile: AnyTile) -> int:
        """Number of tiles that cover the product."""
        columns = self.columns - tile.separate
        return -(-self.rows // tile.rows) * -(-columns // tile.columns)

    def cycles(self, tile: AnyTile, blocks: int, teams: int = 1) -> float:
        """Estimated cycles of the phase on `blocks` blocks, without the wait after it, while `teams` teams of blocks
        compute the same phase on other samples.
        """
        active = teams * min(blocks, self.count(tile))
        return tile.cycles(self.depth, active, -(-self.count(tile) // blocks))


@dataclass(frozen=True)
class Phases:
    """Products of a step: each layer's forward, input gradient (without the first layer's) and weight gradient."""

    forward: tuple[PhaseProduct, ...]
    inputs: tuple[PhaseProduct, ...]
    weights: tuple[PhaseProduct, ...]


def phases(chain: tuple[LinearLayer, ...], net: Net, batch: int, slots: int, rows: int | None = None) -> Phases:
    """Products of a step on a batch; forward and input gradients on `rows` of its samples, by default on all.

    slots : slots of the optimizer.
    """
    last, some = len(chain) - 1, rows or batch
    classifies = isinstance(net.loss, CrossEntropyLoss)
    forward = tuple(
        PhaseProduct(
            some, each.outputs, each.inputs + (each.inputs % 4 != 0), (True, True), classifies and number == last
        )
        for number, each in enumerate(chain)
    )
    inputs = tuple(PhaseProduct(some, each.inputs, each.outputs, (True, False)) for each in chain[1:])
    weights = tuple(
        PhaseProduct(each.outputs, each.inputs + 1, batch, (False, False), loads=1 + slots) for each in chain
    )
    return Phases(forward, inputs, weights)


@lru_cache(4096)
def fastest(
    phase: PhaseProduct, capacity: int, blocks: int, kind: str, teams: int = 1, places: int = THREADS
) -> tuple[AnyTile, float] | None:
    """Tile with the fewest cycles, and these cycles; None if no tile fits. kind, places : as in `PhaseProduct.tiles`;
    if no tile on tensor cores fits, one by multiply-adds.
    """
    tiles = list(phase.tiles(capacity, kind, places)) or list(phase.tiles(capacity, "fma", places))
    tile = min(tiles, key=lambda tile: phase.cycles(tile, blocks, teams), default=None)
    return None if tile is None else (tile, phase.cycles(tile, blocks, teams))


#: Tile and its cycles for each phase of a list.
Tiles = list[tuple[AnyTile, float]]


def all_fastest(
    phases: tuple[PhaseProduct, ...], capacity: int, shares: Sequence[tuple[int, int]], kind: str, places: int = THREADS
) -> Tiles:
    """Fastest tile and its cycles, for each phase that has a tile; on tensor cores phases share code where that is
    faster.

    shares : for each phase, its blocks and teams, as in `PhaseProduct.cycles`.
    """
    some = alternatives(phases, capacity, shares, kind, places)
    return _of_one_length(
        min(some, key=lambda tiles: sum(each[1] for each in tiles) + fetches(tiles)), phases, capacity
    )


def fetches(tiles: Tiles) -> int:
    """Cycles that it takes to fetch the code of products on tensor cores."""
    return CODE * len({tile.code for tile, _ in tiles if isinstance(tile, TensorPhaseTile)})


def alternatives(
    phases: tuple[PhaseProduct, ...], capacity: int, shares: Sequence[tuple[int, int]], kind: str, places: int = THREADS
) -> list[Tiles]:
    """Lists of tiles, one for each phase: the fastest ones, and on tensor cores for each code those of the phases that
    can have it.
    """
    pairs = list(zip(phases, shares, strict=True))
    found = [fastest(phase, capacity, blocks, kind, teams, places) for phase, (blocks, teams) in pairs]
    own = [each for each in found if each is not None]
    if kind == "fma" or len(own) < len(pairs):
        return [own]
    # a phase with the losses of samples keeps its tile, since they take longer than its product
    others = [{} if phase.whole_rows else _by_code(phase, capacity, *share) for phase, share in pairs]
    every = {tuple(own): None}
    for code in dict.fromkeys(code for some in others for code in some):
        for most in (CODE, math.inf):  # cycles that another code may take longer
            tiles = (
                some[code] if code in some and some[code][1] <= each[1] + most else each
                for each, some in zip(own, others, strict=True)
            )
            every[tuple(tiles)] = None
    return [list(tiles) for tiles in every]


def _of_one_length(tiles: Tiles, phases: Sequence[PhaseProduct], capacity: int) -> Tiles:
    """Tiles with the longest chunk of their code, if they have one chunk: the kernel then has one function for all."""
    if len(tiles) < len(phases):
        return tiles
    longest: dict[object, int] = {}
    for tile, _ in tiles:
        if isinstance(tile, TensorPhaseTile):
            longest[tile.code] = max(longest.get(tile.code, 0), tile.chunk)
    found: Tiles = []
    for (tile, cycles), phase in zip(tiles, phases, strict=True):
        longer = replace(tile, chunk=longest[tile.code]) if isinstance(tile, TensorPhaseTile) else tile
        found.append((longer if longer.shared(phase.inside) <= capacity else tile, cycles))
    return found


@lru_cache(4096)
def _by_code(phase: PhaseProduct, capacity: int, blocks: int, teams: int) -> dict[object, tuple[AnyTile, float]]:
    """Fastest tile on tensor cores of each code, and its cycles."""
    found: dict[object, tuple[AnyTile, float]] = {}
    for tile in phase.tiles(capacity, "tensor"):
        assert isinstance(tile, TensorPhaseTile)
        cycles = phase.cycles(tile, blocks, teams)
        if tile.code not in found or cycles < found[tile.code][1]:
            found[tile.code] = tile, cycles
    return found


def dealt(phases: list[tuple[PhaseProduct, AnyTile]], blocks: int) -> float:
    """Cycles of the busiest block if all tiles of several phases are assigned to the blocks in turn."""
    busy, first = [0.0] * blocks, 0
    for phase, tile in phases:
        count = phase.count(tile)
        active = max(1, blocks // count) * count if count < blocks else blocks
        cycles = tile.cycles(phase.depth, active)
        more = tile.cycles(phase.depth, active, 2) - cycles
        for number in range(count):
            busy[(first + number) % blocks] += cycles if number < blocks else more
        first = (first + count) % blocks
    return max(busy)


def backward(
    products: Phases, inputs: Sequence[AnyTile], weights: Sequence[AnyTile], blocks: int
) -> tuple[tuple[int, ...], float]:
    """Layers, from 1, whose weight gradients all blocks compute after all others, since some then have no other tile;
    and the cycles of all input and weight gradients.

    A layer's weight gradient otherwise follows the input gradient of the layer before it.
    """
    own = list(zip(products.weights, weights, strict=True))
    before = list(zip(products.inputs, inputs, strict=True))
    last, late, cycles = own[1::-1], list[int](), 0.0
    for layer in range(len(own), 1, -1):
        head = isinstance(before[layer - 2][1], HeadTile)
        first = [] if head else before[layer - 2 : layer - 1]
        with_own = [*first, *own[layer : layer + 1]]
        spared = dealt(with_own, blocks) - dealt(first, blocks)
        if layer < len(own) and dealt([*last, own[layer]], blocks) - dealt(last, blocks) < spared:
            late, last, with_own = [*late, layer + 1], [*last, own[layer]], first
        cycles += dealt(with_own, blocks)
    return tuple(late), cycles + dealt(last, blocks)


#: Each layer's forward tiles and, without the first layer's, those of the input gradients, with their cycles.
Passes = tuple[Tiles, Tiles]


def with_head(
    passes: Passes, products: Phases, capacity: int, share: tuple[int, int], kind: str, wait: float
) -> Passes:
    """Passes in which one phase has a classifier's last layer, its loss and its input gradient, where that is faster.

    share : blocks and teams, as in `PhaseProduct.cycles`. wait : cycles of the wait that this saves.
    """
    forward, inputs = passes
    last = products.forward[-1]
    if kind == "fma" or not last.whole_rows or not inputs or len(forward) < len(products.forward):
        return passes
    tile = head_tile(last.rows, last.columns, products.inputs[-1].columns, share[0])
    if tile is None or tile.shared(last.inside) > capacity:
        return passes
    cycles = tile.cycles(last.depth, 1, -(-last.rows // (tile.rows * share[0])))
    if cycles >= forward[-1][1] + inputs[-1][1] + wait:
        return passes
    return [*forward[:-1], (tile, cycles)], [*inputs[:-1], (tile, 0.0)]
