"""Weights and activations of a persistent kernel in shared memory: their offsets, the tiles of the phases that read
them, and the estimated cycles of a step. The phases are in held.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass

from .products import LinearLayer
from .shared_arrays import offsets
from .tiles import L2_BYTES, L2_BYTES_EACH, THREADS, PhaseTile

#: Cycles until the first weights have arrived after a wait of the grid.
FIRST_WEIGHTS = 900

#: Cycles of a tile beyond its multiply-adds: two barriers, the sums of the groups, what is stored.
TILE = 250

#: Cycles of four numbers of k for all threads, 16 multiply-adds each for one of them.
QUAD = 250

#: Cycles of a wait of a block, and of a cluster, with the time that the phase before it takes beyond its estimate.
#: These and RECEIVED were fitted to nine plans of five nets on an H100; docs/notes/persistent.md has what is left.
BLOCK_WAIT, CLUSTER_WAIT = 1600, 2670

#: Bytes that a block receives in a cycle from the other blocks of its cluster.
RECEIVED = 5.5

#: Cycles of the loss, and of eight rows of it.
LOSS, LOSS_ROWS = 300, 250

#: Cycles of a gathered quad that a lane stores into another block.
STORED = 8


def slice_of(features: int, blocks: int) -> int:
    """Number of a layer's features that one block of a cluster computes, as `slice` of held.cuh."""
    return -(-((features + 3) // 4) // blocks) * 4


def held_line(features: int) -> int:
    """Pitch in floats of a row in shared memory, as `held_line` of held.cuh."""
    return ((features + 3) // 4 | 1) * 4


@dataclass(frozen=True)
class HeldPlan:
    """Tiles and offsets of weights and activations in shared memory.

    forward, inputs : each layer's tiles; None for the input gradient of the first.
    places : offset in floats by name. w1, w2, ...: weights by outputs; b2, b3, ...: by inputs, in clusters of several
        blocks; own1, own2, ...: the block's slice of a layer's outputs; own: of the last layer or of a gradient;
        a, b: rows of all features, alternately; g: gradient by the logits; sums: partial sums of tiles.
    floats : floats of all arrays together, without the batch's samples.
    cycles : estimated cycles of forward, loss and input gradients, with the waits between them.
    """

    forward: tuple[PhaseTile, ...]
    inputs: tuple[PhaseTile | None, ...]
    places: dict[str, int]
    floats: int
    cycles: float


def held_plan(chain: tuple[LinearLayer, ...], rows: int, teams: int, cluster: int) -> HeldPlan:
    """Plan for clusters of `cluster` blocks, of which `teams` have `rows` samples each."""
    forward = [fastest_tile(rows, slice_of(each.outputs, cluster), each.inputs) for each in chain]
    inputs = [fastest_tile(rows, slice_of(each.inputs, cluster), each.outputs) for each in chain[1:]]
    sizes = _sizes(chain, rows, cluster)
    sizes["sums"] = max(sums_of(tile) for tile, _ in (*forward, *inputs))
    places, floats = offsets(sizes)
    cycles = _step(chain, rows, teams, cluster, ([each for _, each in forward], [each for _, each in inputs]))
    tiles = tuple(tile for tile, _ in forward), (None, *(tile for tile, _ in inputs))
    return HeldPlan(*tiles, places, floats, cycles)


def _sizes(chain: tuple[LinearLayer, ...], rows: int, cluster: int) -> dict[str, int]:
    """Floats of each array in shared memory, by name, without the sums."""
    sizes, last = {}, chain[-1].outputs
    for number, each in enumerate(chain, start=1):
        sizes[f"w{number}"] = slice_of(each.outputs, cluster) * held_line(each.inputs + 1)
        if cluster > 1 and number > 1:
            sizes[f"b{number}"] = -(-each.outputs // 4) * 4 * (slice_of(each.inputs, cluster) + 4)
        if number < len(chain):
            sizes[f"own{number}"] = rows * slice_of(each.outputs, cluster)
    widest = max(each.outputs for each in chain)
    sizes["own"] = rows * slice_of(widest, cluster)
    sizes["a"] = sizes["b"] = rows * held_line(widest)
    sizes["g"] = rows * held_line(last)
    return sizes


def sums_of(tile: PhaseTile) -> int:
    """Number of floats of the partial sums of a tile, as `Tile` of product.cuh."""
    patches = tile.down * tile.across
    return 16 * patches * (THREADS // 32 if patches < 32 else THREADS // patches)


def fastest_tile(rows: int, columns: int, depth: int) -> tuple[PhaseTile, float]:
    """Tile with the fewest cycles for a product in shared memory, and these cycles."""
    sizes = [2**i for i in range(THREADS.bit_length())]
    tiles = [PhaseTile(down, across, 4, 1) for down in sizes for across in sizes if down * across <= THREADS // 2]

    def cycles(tile: PhaseTile) -> float:
        count = -(-rows // (4 * tile.down)) * -(-columns // (4 * tile.across))
        return count * (TILE + QUAD * -(-depth * tile.down * tile.across // (4 * THREADS)))

    best = min(tiles, key=lambda tile: (cycles(tile), tile.down * tile.across))
    return best, cycles(best)


def _step(
    chain: tuple[LinearLayer, ...], rows: int, teams: int, cluster: int, phases: tuple[list[float], list[float]]
) -> float:
    """Cycles from one wait of the grid to the next; each phase begins when its weights have been loaded."""
    speed = min(L2_BYTES_EACH, L2_BYTES / (teams * cluster))
    clock, loaded = 0.0, float(FIRST_WEIGHTS)

    def phase(cycles: float, weights: int, features: int) -> None:
        nonlocal clock, loaded
        loaded += 4 * weights / speed
        wait = BLOCK_WAIT if cluster == 1 else CLUSTER_WAIT + 4 * rows * features / RECEIVED
        clock = max(clock, loaded) + cycles + wait

    for each, cycles in zip(chain, phases[0], strict=True):
        phase(cycles, slice_of(each.outputs, cluster) * (each.inputs + 1), each.outputs)
    clock += LOSS + LOSS_ROWS * -(-rows // 8)
    for each, cycles in zip(chain[:0:-1], phases[1][::-1], strict=True):
        phase(cycles, each.outputs * slice_of(each.inputs, cluster) if cluster > 1 else 0, each.inputs)
    gathered = -(-rows // (8 * cluster)) * -(-chain[0].inputs // 128)
    return clock + STORED * gathered * cluster
