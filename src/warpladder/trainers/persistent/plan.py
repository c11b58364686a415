"""Plan of a persistent kernel: the layers, which blocks train together, and a tile for each phase of a step.

A phase is one matrix product. Its time is estimated from the rounds of tiles that a block takes, the bytes and
multiply-adds of a tile, and the wait after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ...device.limits import Limits
from ...nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU

#: Threads of a block, as THREADS of product.cuh.
THREADS = 256

#: Cycles of a wait: of a cluster, and of the whole grid (H200: 0.24 and 0.97 us).
CLUSTER_WAIT, GRID_WAIT = 900, 1900

#: Cycles until a block's first load from L2 has arrived and its tile is stored, whatever the tile's size.
LATENCY = 1500

#: Bytes that the L2 cache delivers in a cycle to all multiprocessors, and to one at most, as these copies reach them.
L2_BYTES, L2_BYTES_EACH = 1600, 26

#: Multiply-adds of a multiprocessor in a cycle that these tiles reach.
FMAS = 50

#: Cycles of a piece of k beyond its loads and multiply-adds, and from one piece to the next at least: its copies are on
#: their way while one other piece is computed with.
PIECE, PIECE_LATENCY = 200, 1000

#: Numbers of k of a piece, and pieces in shared memory at a time, at most.
DEPTHS, STAGES = (4, 8, 16, 32, 64, 128, 256, 512, 1024), 3

#: Blocks on a device whose number of multiprocessors says nothing: the emulator.
EMULATED_BLOCKS = 3

#: Bytes of shared memory that are not for tiles: static arrays, and what the system takes.
RESERVED = 3 << 10


@dataclass(frozen=True)
class LinearLayer:
    """A Linear layer of the chain, with the ReLU that follows it.

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
    """

    down: int
    across: int
    depth: int
    stages: int

    def __str__(self) -> str:
        return f"Tile<{self.down}, {self.across}, {self.depth}, {self.stages}>"


@dataclass(frozen=True)
class PhaseProduct:
    """Sizes of a phase's matrix product, and how its factors lie in memory.

    rows, columns, depth : m, n and k.
    inside : for each factor, True if neighbours in memory are neighbours in k.
    whole_rows : True if a tile must have all columns.
    """

    rows: int
    columns: int
    depth: int
    inside: tuple[bool, bool]
    whole_rows: bool = False

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
        return -(-self.rows // (4 * tile.down)) * -(-self.columns // (4 * tile.across))

    def cycles(self, tile: PhaseTile, blocks: int) -> float:
        """Estimated cycles of the phase on this many blocks, without the wait after it."""
        rows, columns, pieces = 4 * tile.down, 4 * tile.across, -(-self.depth // tile.depth)
        groups, active = THREADS // (tile.down * tile.across), min(blocks, self.count(tile))
        deep = min(tile.depth, self.depth)
        load = 4 * (rows + columns) * deep / min(L2_BYTES_EACH, L2_BYTES / active)
        work = rows * columns * 4 * groups * -(-deep // (4 * groups)) / FMAS + PIECE
        return -(-self.count(tile) // blocks) * (LATENCY + load + work + (pieces - 1) * max(load, work, PIECE_LATENCY))


@dataclass(frozen=True)
class Phases:
    """Products of a step: each layer's forward, input gradient (None for the first layer) and weight gradient."""

    forward: tuple[PhaseProduct, ...]
    inputs: tuple[PhaseProduct | None, ...]
    weights: tuple[PhaseProduct, ...]


@dataclass(frozen=True)
class PersistentPlan:
    """Blocks, and a tile for each phase of a step.

    layers : the chain.
    blocks : blocks of the launch.
    in_grid : True if they wait for each other as a grid, False if as one cluster.
    forward, inputs, weights : tiles of `Phases`.
    shared : bytes of dynamic shared memory for tiles.
    cycles : estimated cycles of a step.
    """

    layers: tuple[LinearLayer, ...]
    blocks: int
    in_grid: bool
    forward: tuple[PhaseTile, ...]
    inputs: tuple[PhaseTile | None, ...]
    weights: tuple[PhaseTile, ...]
    shared: int
    cycles: float


def layers(net: Net) -> tuple[LinearLayer, ...] | str:
    """The net's Linear layers, or the reason why a persistent kernel cannot train it."""
    found: list[LinearLayer] = []
    for number, (layer, shape) in enumerate(zip(net.layers, net.shapes, strict=False)):
        if isinstance(layer, Linear) and not layer.bias:
            return f"its Linear layers have a bias, and layer {number} has none: graph and tensor take this net"
        if isinstance(layer, Linear):
            found.append(LinearLayer(number, shape[0], layer.out_features, False))
        elif isinstance(layer, ReLU) and found:
            found[-1] = LinearLayer(found[-1].number, found[-1].inputs, found[-1].outputs, True)
        elif not isinstance(layer, Flatten):
            return (
                f"it trains chains of Linear and ReLU, which begin with Linear, and layer {number} is "
                f"{type(layer).__name__}: graph and tensor take this net"
            )
    return tuple(found)


def phases(chain: tuple[LinearLayer, ...], net: Net, batch: int) -> Phases:
    """Products of a step on a batch."""
    last = len(chain) - 1
    classifies = isinstance(net.loss, CrossEntropyLoss)
    forward = tuple(
        PhaseProduct(
            batch, each.outputs, each.inputs + (each.inputs % 4 != 0), (True, True), classifies and number == last
        )
        for number, each in enumerate(chain)
    )
    inputs = tuple(
        PhaseProduct(batch, each.inputs, each.outputs, (True, False)) if number else None
        for number, each in enumerate(chain)
    )
    weights = tuple(PhaseProduct(each.outputs, each.inputs + 1, batch, (False, False)) for each in chain)
    return Phases(forward, inputs, weights)


def plans(
    net: Net, batch: int, limits: Limits, blocks: int | None = None, wait: str | None = None
) -> list[PersistentPlan]:
    """Plans of the net on a device, for one cluster and for a grid, the fastest estimate first.

    Parameters
    ----------
    blocks : int, optional
        Blocks of the launch; a cluster of the device's largest size or a block for each multiprocessor by default.
    wait : {"cluster", "grid"}, optional
        How blocks wait for each other; both are planned by default.
    """
    chain = layers(net)
    assert not isinstance(chain, str)
    products = phases(chain, net, batch)
    capacity = limits.shared_opt_in - RESERVED
    teams = {
        "cluster": min(blocks or limits.cluster, limits.cluster),
        "grid": blocks or (limits.multiprocessors if limits.multiprocessors > 1 else EMULATED_BLOCKS),
    }
    found = []
    for name, count in teams.items():
        if (wait is None or wait == name) and (name == "grid" or limits.cluster > 1):
            plan = _planned(chain, products, count, name == "grid", capacity)
            if plan is not None:
                found.append(plan)
    return sorted(found, key=lambda plan: plan.cycles)


def _planned(
    chain: tuple[LinearLayer, ...], products: Phases, blocks: int, in_grid: bool, capacity: int
) -> PersistentPlan | None:
    """The plan for a number of blocks: for each phase the tile of the fewest cycles; None if a phase has no tile."""
    shared, cycles = 0, 2.0 * len(chain) * (GRID_WAIT if in_grid else CLUSTER_WAIT)
    chosen: list[list[PhaseTile | None]] = []
    for kind in (products.forward, products.inputs, products.weights):
        chosen.append([])
        for phase in kind:
            if phase is None:
                chosen[-1].append(None)
                continue
            tile = min(phase.tiles(capacity), key=lambda tile: phase.cycles(tile, blocks), default=None)
            if tile is None:
                return None
            chosen[-1].append(tile)
            shared, cycles = max(shared, phase.shared(tile)), cycles + phase.cycles(tile, blocks)
    forward, inputs, weights = map(tuple, chosen)
    return PersistentPlan(chain, blocks, in_grid, forward, inputs, weights, shared, cycles)  # type: ignore[arg-type]


def why_not(net: Net) -> str | None:
    """Reason why no persistent kernel trains the net, or None."""
    chain = layers(net)
    if isinstance(chain, str):
        return chain
    if isinstance(net.loss, CrossEntropyLoss) and math.prod(net.out_shape) > 4 * THREADS:
        return f"a tile holds {4 * THREADS:,} classes at most, and net {net.name!r} has {math.prod(net.out_shape):,}"
    return None
