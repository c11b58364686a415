"""Which tiles a matrix product is cut into: the shapes there are, and a model of what each would take.

The model counts cycles of one multiprocessor. It does not have to be right, only to order the candidates: the graph
rung's tuner times the best of them (trainers/tuning/tuner.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...device import Limits
from ..engine.kernels import Launches, ceil_div


@dataclass(frozen=True)
class Tile:
    """The template arguments of `Tile` in device/include/gemm.cuh.

    bm, bn : rows and columns of C that a block computes.
    bk : terms of the sums that are copied to shared memory at a time.
    tm, tn : rows and columns that a thread computes.
    stages : such copies that shared memory holds.
    """

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    stages: int = 3

    @property
    def threads(self) -> int:
        return self.bm // self.tm * (self.bn // self.tn)

    @property
    def kind(self) -> str:
        """The kind of kernel that computes the tile, where a product has several kinds: a tuner times at least one tile
        of each.
        """
        return ""

    @property
    def source(self) -> Path | None:
        """The file of its kernel, where tiles of a product differ in that."""
        return None

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a block takes."""
        return 4 * self.stages * self.bk * (self.bm + self.bn + 8)

    @property
    def resident(self) -> int:
        """Blocks that share a multiprocessor, by registers and by shared memory."""
        sums = self.tm * self.tn
        if sums >= 128:
            registers = 255
        elif sums >= 64:
            registers = 168 if self.threads < 256 else 128
        else:
            registers = 128 if sums >= 48 else 96 if sums >= 32 else 64
        return max(1, min(65536 // (registers * self.threads), 8, (227 << 10) // (self.shared + 1024)))

    @property
    def efficiency(self) -> float:
        """Share of the issued instructions that are multiply-adds, about: a wider thread loads less for each, a flat
        tile copies more.
        """
        flat = 0.8 if self.bn > 2 * self.threads else 1.0
        return {128: 0.88, 64: 0.84, 48: 0.8, 32: 0.75, 16: 0.6}[self.tm * self.tn] * flat

    def __str__(self) -> str:
        return f"{self.bm}, {self.bn}, {self.bk}, {self.tm}, {self.tn}, {self.stages}"


#: Every shape that a product may be cut into; a tuner times them.
CANDIDATES = (
    Tile(128, 256, 8, 8, 16),
    Tile(128, 128, 8, 8, 16),
    Tile(128, 128, 8, 8, 8),
    Tile(128, 128, 16, 8, 8),
    Tile(128, 64, 8, 8, 8),
    Tile(64, 128, 8, 8, 8),
    Tile(64, 64, 16, 8, 8),
    Tile(32, 256, 8, 8, 8),
    Tile(16, 256, 8, 8, 8),
    Tile(64, 64, 16, 8, 4),
    Tile(32, 128, 16, 8, 4),
    Tile(64, 32, 16, 4, 4),
    Tile(32, 64, 16, 4, 4),
    Tile(32, 32, 16, 4, 4),
    Tile(16, 128, 16, 4, 4),
)

#: Parts that a sum may be cut into, where there are too few tiles to fill the device.
PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)


#: Cycles that a launch takes before and after its work, that a block takes to fill its first stages, and that a number
#: takes from shared memory.
LAUNCH, FILLING, WAIT = 3000, 1500, 32

#: Cycles of a multiprocessor's shared memory that one number takes on its way there: 16 bytes a thread; neighbours in
#: an image, 4 bytes a thread; transposed, where a warp's 32 come from four lines. And what a warp takes to read four
#: numbers a thread.
ACROSS, PATCHES, ALONG, READ = 1 / 20, 1 / 10, 1 / 5, 3

#: Of A's and of B's numbers.
Copies = tuple[float, float]

#: Bytes a cycle: that a multiprocessor gets from the second-level cache, and that all of them together read and write.
LOADED, ADDED = 16, 1500


@dataclass(frozen=True)
class Plan:
    """How one product is computed.

    tile : the tiles that C is cut into.
    depth : terms of each part of the sums, a multiple of tile.bk.
    parts : how many parts there are; more than one leaves sums to be added up.
    """

    tile: Tile
    depth: int
    parts: int


def plans(
    m: int, n: int, k: int | Callable[[Tile], int], limits: Limits, room: int | None = None, whole: bool = True,
    tiles: tuple[Tile, ...] = CANDIDATES, copies: Copies = (ACROSS, ACROSS),
) -> list[Plan]:  # fmt: skip
    """Every way to compute C (m, n) with sums of k terms on a device, the fastest by the model first.

    Parameters
    ----------
    m, n : int
    k : int or callable
        Where the terms are padded to the tile's bk, how many there are with a tile.
    limits : Limits
    room : int, optional
        Most numbers that the parts may take together; a sum in one part needs none.
    whole : bool
        Whether a sum in one part is finished; if not, there is always a second launch.
    tiles : tuple of Tile
        The shapes to choose from.
    copies : pair of float
        What it costs to copy a number of A and of B.
    """
    terms = tuple((tile, k(tile) if callable(k) else k) for tile in tiles if tile.shared <= limits.shared_opt_in)
    return list(_sorted(m, n, terms, limits.multiprocessors, room, whole, copies))


@lru_cache(maxsize=1024)
def _sorted(
    m: int, n: int, terms: tuple[tuple[Tile, int], ...], multiprocessors: int, room: int | None, whole: bool, copies: Copies
) -> tuple[Plan, ...]:  # fmt: skip
    """What `plans` gives, of tiles that fit, each with the terms of a sum. Layers that are alike ask for the same, and
    so does every load.
    """
    found = {}
    for tile, count in terms:
        depths = dict.fromkeys(
            ceil_div(ceil_div(count, cut), tile.bk) * tile.bk for cut in PARTS
        )  # several cuts come to the same
        for plan in (Plan(tile, depth, ceil_div(count, depth)) for depth in depths):
            if room is None or plan.parts == 1 or plan.parts * m * n <= room:
                found[plan] = cycles(plan, m, n, multiprocessors, whole, copies)
    return tuple(sorted(found, key=lambda plan: found[plan]))


Shape = tuple[int, int, int | Callable[[Tile], int]]


class Planned:
    """One product for any number of samples up to a capacity: the model's plans, or those that a tuner has found to be
    faster.

    shape : callable
        m, n and k, as `plans` takes them, for a number of samples. It does not refer to the op that keeps the plan:
        what refers to itself waits for the garbage collector, and its memory with it.
    limits : Limits
    capacity : int
    whole : bool
        Whether a sum in one part is written where it belongs; if not, it takes room as well.
    tiles, copies : as `plans`

    Attributes
    ----------
    room : int
        Numbers that the parts take together, at most.
    """

    def __init__(
        self, shape: Callable[[int], Shape], limits: Limits, capacity: int, whole: bool = True, tiles: tuple[Tile, ...] = CANDIDATES,
        copies: Copies = (ACROSS, ACROSS),
    ) -> None:  # fmt: skip
        self.shape, self.limits, self.whole, self.tiles, self.copies = shape, limits, whole, tiles, copies
        self.chosen: dict[int, Plan] = {}
        self.room = 0
        for n in {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}:
            m, columns, _ = shape(n)
            parts = plans(*shape(n), limits, None, whole, tiles, copies)[0].parts
            self.room = max(self.room, parts * m * columns if parts > 1 or not whole else 0)

    def options(self, n: int) -> list[Plan]:
        """The plans that there is room for, the fastest by the model first."""
        return plans(*self.shape(n), self.limits, self.room, self.whole, self.tiles, self.copies)

    def cycles(self, n: int, plan: Plan) -> float:
        """What n samples take by the model."""
        m, columns, _ = self.shape(n)
        return cycles(plan, m, columns, self.limits.multiprocessors, self.whole, self.copies)

    def use(self, n: int, plan: Plan) -> None:
        """Compute n samples by this one of `options(n)` from now on."""
        self.chosen[n] = plan

    def mark(self, calls: Launches) -> Launches:
        """The same calls, known as this product's: those that a tuner times."""
        for call in calls:
            call.product = self
        return calls

    def __call__(self, n: int) -> Plan:
        if n not in self.chosen:
            self.chosen[n] = self.options(n)[0]
        return self.chosen[n]


def cycles(
    plan: Plan, m: int, n: int, multiprocessors: int, whole: bool = True, copies: Copies = (ACROSS, ACROSS)
) -> float:
    """What a product takes, in cycles: the busiest multiprocessor's multiply-adds or loads, the start of a launch, the
    adding up of the parts.
    """
    tile = plan.tile
    blocks = ceil_div(m, tile.bm) * ceil_div(n, tile.bn) * plan.parts
    each = ceil_div(blocks, multiprocessors) if blocks < 8 * multiprocessors else blocks / multiprocessors + 0.5
    together = min(tile.resident, each)
    warps = ceil_div(int(together * tile.threads), 128)  # of each of the four schedulers
    sums = warps * tile.tm * tile.tn
    hidden = sums / (sums + 45)  # of a scheduler's waits: those that other warps, or independent sums, fill
    multiplying = max(sums / (tile.efficiency * hidden), WAIT)
    loading = 4 * together * (tile.bm + tile.bn) / LOADED
    sharing = together * (
        tile.bm * copies[0] + tile.bn * copies[1] + tile.threads / 32 * (tile.tm + tile.tn) / 4 * READ
    )
    busy = each / together * (plan.depth * max(multiplying, loading, sharing) + FILLING / together)
    if plan.parts == 1 and whole:
        return LAUNCH + busy
    return LAUNCH + busy + LAUNCH + 40 * plan.parts + 4 * (2 * plan.parts + 1) * m * n / ADDED
