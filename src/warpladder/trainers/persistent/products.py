"""Matrix products of the phases of a step, their tiles, and the estimated cycles of a phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

#: Threads of a block, as THREADS of product.cuh.
THREADS = 256

#: Cycles until a block's first load from L2 has arrived and its tile is stored, whatever the tile's size.
LATENCY = 1500

#: Bytes that the L2 cache delivers in a cycle to all multiprocessors, and to one at most, as these copies reach them.
L2_BYTES, L2_BYTES_EACH = 1600, 26

#: Multiply-adds of a multiprocessor in a cycle that these tiles reach.
FMAS = 50

#: Cycles of a piece of k beyond its loads and multiply-adds, and from one piece to the next at least: its copies are on
#: their way while one other piece is computed with.
PIECE, PIECE_LATENCY = 200, 1000

#: Cycles of a tile's biases that are computed separately.
BIAS = 1200

#: Numbers of k of a piece, and pieces in shared memory at a time, at most.
DEPTHS, STAGES = (4, 8, 16, 32, 64, 128, 256, 512, 1024), 3


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
class PhaseTile:
    """Shape of a tile, `Tile` of product.cuh: 4 * down rows, 4 * across columns, k in pieces of `depth`, of which
    `stages` are in shared memory at a time.

    separate : True if separate sums compute the bias of a weight gradient.
    """

    down: int
    across: int
    depth: int
    stages: int
    separate: bool = False

    def __str__(self) -> str:
        return f"Tile<{self.down}, {self.across}, {self.depth}, {self.stages}>"


@dataclass(frozen=True)
class PhaseProduct:
    """Sizes of a phase's matrix product, and the order of its factors in memory.

    rows, columns, depth : m, n and k.
    inside : for each factor, True if neighbours in memory are neighbours in k.
    whole_rows : True if a tile must have all columns.
    bias : True if the last column is the bias; if tiles cover the other columns exactly, separate sums may compute it.
    """

    rows: int
    columns: int
    depth: int
    inside: tuple[bool, bool]
    whole_rows: bool = False
    bias: bool = False

    def tiles(self, capacity: int) -> Iterator[PhaseTile]:
        """Tiles that fit into `capacity` bytes of shared memory."""
        sizes = [2**i for i in range(THREADS.bit_length())]
        for down, across in product(sizes, sizes):
            if down * across > THREADS or (self.whole_rows and 4 * across < self.columns):
                continue
            for depth in DEPTHS:
                tile = PhaseTile(down, across, depth, min(STAGES, -(-self.depth // depth)))
                if depth < max(8, 2 * self.depth) and self.shared(tile) <= capacity:
                    yield tile
                    if self.bias and (self.columns - 1) % (4 * across) == 0 and 4 * down <= THREADS:
                        yield replace(tile, separate=True)

    def shared(self, tile: PhaseTile) -> int:
        """Bytes of shared memory of a tile: its panels, or the sums of all groups and the finished tile."""
        lines = 4 * tile.down, 4 * tile.across
        panels = tile.stages * sum(
            size * (tile.depth + 4) if inside else tile.depth * (size + 4)
            for size, inside in zip(lines, self.inside, strict=True)
        )
        return 4 * max(panels, 16 * THREADS + lines[0] * lines[1])

    def count(self, tile: PhaseTile) -> int:
        """Number of tiles that cover the product."""
        columns = self.columns - tile.separate
        return -(-self.rows // (4 * tile.down)) * -(-columns // (4 * tile.across))

    def cycles(self, tile: PhaseTile, blocks: int, teams: int = 1) -> float:
        """Estimated cycles of the phase on `blocks` blocks, without the wait after it, while `teams` teams of blocks
        compute the same phase on other samples.
        """
        rows, columns, pieces = 4 * tile.down, 4 * tile.across, -(-self.depth // tile.depth)
        groups, active = THREADS // (tile.down * tile.across), teams * min(blocks, self.count(tile))
        deep = min(tile.depth, self.depth)
        load = 4 * (rows + columns) * deep / min(L2_BYTES_EACH, L2_BYTES / active)
        work = rows * columns * 4 * groups * -(-deep // (4 * groups)) / FMAS + PIECE
        latency = LATENCY + BIAS * tile.separate
        return -(-self.count(tile) // blocks) * (latency + load + work + (pieces - 1) * max(load, work, PIECE_LATENCY))


@dataclass(frozen=True)
class Phases:
    """Products of a step: each layer's forward, input gradient (without the first layer's) and weight gradient."""

    forward: tuple[PhaseProduct, ...]
    inputs: tuple[PhaseProduct, ...]
    weights: tuple[PhaseProduct, ...]


@lru_cache(4096)
def fastest(
    phase: PhaseProduct, capacity: int, blocks: int, teams: int = 1, places: int = THREADS
) -> tuple[PhaseTile, float] | None:
    """Tile with the fewest cycles, and these cycles; None if no tile fits. places : largest number of 4 x 4 patches."""
    tiles = (tile for tile in phase.tiles(capacity) if tile.down * tile.across <= places)
    tile = min(tiles, key=lambda tile: phase.cycles(tile, blocks, teams), default=None)
    return None if tile is None else (tile, phase.cycles(tile, blocks, teams))


def all_fastest(
    kind: tuple[PhaseProduct, ...], capacity: int, blocks: int, teams: int = 1
) -> list[tuple[PhaseTile, float]]:
    """Fastest tile and its cycles, for each phase that has a tile."""
    found = (fastest(phase, capacity, blocks, teams) for phase in kind)
    return [each for each in found if each is not None]


def dealt(phases: list[tuple[PhaseProduct, PhaseTile]], blocks: int) -> float:
    """Cycles of the busiest block if all tiles of several phases are assigned to the blocks in turn."""
    busy, first = [0.0] * blocks, 0
    for phase, tile in phases:
        count = phase.count(tile)
        cycles = phase.cycles(tile, count, max(1, blocks // count))
        for number in range(count):
            busy[(first + number) % blocks] += cycles
        first = (first + count) % blocks
    return max(busy)
