"""Matrix products of the phases of a step, their tiles, and the estimated cycles of a phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from .tiles import THREADS, AnyTile, multiply_add_tiles, tensor_tiles


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
        return -(-self.count(tile) // blocks) * tile.cycles(self.depth, active)


@dataclass(frozen=True)
class Phases:
    """Products of a step: each layer's forward, input gradient (without the first layer's) and weight gradient."""

    forward: tuple[PhaseProduct, ...]
    inputs: tuple[PhaseProduct, ...]
    weights: tuple[PhaseProduct, ...]


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


def all_fastest(
    phases: tuple[PhaseProduct, ...], capacity: int, blocks: int, kind: str, teams: int = 1
) -> list[tuple[AnyTile, float]]:
    """Fastest tile and its cycles, for each phase that has a tile."""
    found = (fastest(phase, capacity, blocks, kind, teams) for phase in phases)
    return [each for each in found if each is not None]


def dealt(phases: list[tuple[PhaseProduct, AnyTile]], blocks: int) -> float:
    """Cycles of the busiest block if all tiles of several phases are assigned to the blocks in turn."""
    busy, first = [0.0] * blocks, 0
    for phase, tile in phases:
        count = phase.count(tile)
        cycles = phase.cycles(tile, count, max(1, blocks // count))
        for number in range(count):
            busy[(first + number) % blocks] += cycles
        first = (first + count) % blocks
    return max(busy)
