"""Tiles of a matrix product: their shapes, and a product's cycles with each."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...device import Limits
from ..engine.kernels import ceil_div
from .launch import LAUNCH, blocks_by_shared
from .plans import CostProblem, depths


@dataclass(frozen=True)
class Tile:
    """Tile of an fp32 matrix product: template arguments of `Tile` in device/include/gemm.cuh.

    bm, bn : rows and columns of C that a block computes.
    bk : terms of the sums that a stage copies to shared memory.
    tm, tn : rows and columns of C that a thread computes.
    stages : number of stages in shared memory.
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
        """Kind of kernel, for products with several kinds of kernels: a tuner times at least one tile of each."""
        return ""

    @property
    def source(self) -> Path | None:
        """Kernel's source file, for products with kernels in several files; else None."""
        return None

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return 4 * self.stages * self.bk * (self.bm + self.bn + 8)

    @property
    def resident(self) -> int:
        """Number of blocks that fit a multiprocessor, by registers and by shared memory."""
        sums = self.tm * self.tn
        if sums >= 128:
            registers = 255
        elif sums >= 64:
            registers = 168 if self.threads < 256 else 128
        else:
            registers = 128 if sums >= 48 else 96 if sums >= 32 else 64
        return max(1, min(65536 // (registers * self.threads), 8, blocks_by_shared(self.shared, 227 << 10)))

    @property
    def efficiency(self) -> float:
        """Share of multiply-adds among issued instructions: more sums need fewer loads, a flat tile copies more."""
        flat = 0.8 if self.bn > 2 * self.threads else 1.0
        return {128: 0.88, 64: 0.84, 48: 0.8, 32: 0.75, 16: 0.6}[self.tm * self.tn] * flat

    def __str__(self) -> str:
        return f"{self.bm}, {self.bn}, {self.bk}, {self.tm}, {self.tn}, {self.stages}"


#: All tiles of a product in fp32.
CANDIDATES = (
    Tile(128, 256, 8, 8, 16), Tile(128, 128, 8, 8, 16), Tile(128, 128, 8, 8, 8), Tile(128, 128, 16, 8, 8),
    Tile(128, 64, 8, 8, 8), Tile(64, 128, 8, 8, 8), Tile(64, 64, 16, 8, 8), Tile(32, 256, 8, 8, 8),
    Tile(16, 256, 8, 8, 8), Tile(64, 64, 16, 8, 4), Tile(32, 128, 16, 8, 4), Tile(64, 32, 16, 4, 4),
    Tile(32, 64, 16, 4, 4), Tile(32, 32, 16, 4, 4), Tile(16, 128, 16, 4, 4),
)  # fmt: skip
#: Numbers of parts of a sum, for products with too few tiles to fill the device.
PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
#: Cycles that a block takes to fill its first stages; cycles that a number takes from shared memory.
FILLING, WAIT = 1500, 32
#: Cycles of a multiprocessor's shared memory for each number that is copied there: 16 bytes a thread; neighbours in an
#: image, 4 bytes a thread; transposed, from four lines. Cycles of a warp to read four numbers a thread.
ACROSS, PATCHES, ALONG, READ = 1 / 20, 1 / 10, 1 / 5, 3
#: Cycles to copy a number of A, and one of B.
Copies = tuple[float, float]
#: Bytes a cycle that a multiprocessor gets from the second-level cache, and that all of them together read and write.
LOADED, ADDED = 16, 1500


@dataclass(frozen=True)
class TilePlan:
    """Plan of a matrix product.

    tile : tile of C that a block computes.
    depth : terms of each part of the sums, a multiple of tile.bk.
    parts : number of split-K parts; if more than one, a second launch adds the partials.
    """

    tile: Tile
    depth: int
    parts: int


class TileProblem(CostProblem[TilePlan]):
    """Cost problem of a matrix product by tiles."""

    @abstractmethod
    def work(self, plan: TilePlan) -> int:
        """Number of multiply-adds with this plan."""


@dataclass(frozen=True)
class GemmProblem(TileProblem):
    """Cost problem of C (m, n) = A B in fp32 on a device.

    terms : each tile that fits the device, and the terms of a sum with it, padded to the tile's bk if necessary.
    multiprocessors : number of the device's multiprocessors.
    is_whole : False if a second launch follows even without split-K.
    copies : cycles to copy a number of A, and one of B.
    """

    m: int
    n: int
    terms: tuple[tuple[Tile, int], ...]
    multiprocessors: int
    is_whole: bool = True
    copies: Copies = (ACROSS, ACROSS)

    def plans(self) -> Iterator[TilePlan]:
        for tile, count in self.terms:
            for depth in depths(count, PARTS, tile.bk):
                yield TilePlan(tile, depth, ceil_div(count, depth))

    def partials(self, plan: TilePlan) -> int:
        return plan.parts * self.m * self.n if plan.parts > 1 or not self.is_whole else 0

    def work(self, plan: TilePlan) -> int:
        return self.m * self.n * dict(self.terms)[plan.tile]

    def cycles(self, plan: TilePlan) -> float:
        """Cycles of the busiest multiprocessor's multiply-adds or loads, of the launch, and of adding partials."""
        tile, processors = plan.tile, self.multiprocessors
        blocks = ceil_div(self.m, tile.bm) * ceil_div(self.n, tile.bn) * plan.parts
        each = ceil_div(blocks, processors) if blocks < 8 * processors else blocks / processors + 0.5
        together = min(tile.resident, each)
        warps = ceil_div(int(together * tile.threads), 128)  # of each of the four schedulers
        sums = warps * tile.tm * tile.tn
        hidden = sums / (sums + 45)  # of a scheduler's waits: those that other warps, or independent sums, fill
        multiplying = max(sums / (tile.efficiency * hidden), WAIT)
        loading = 4 * together * (tile.bm + tile.bn) / LOADED
        copying, reading = self.copies, tile.threads / 32 * (tile.tm + tile.tn) / 4 * READ
        sharing = together * (tile.bm * copying[0] + tile.bn * copying[1] + reading)
        busy = each / together * (plan.depth * max(multiplying, loading, sharing) + FILLING / together)
        if plan.parts == 1 and self.is_whole:
            return LAUNCH + busy
        return LAUNCH + busy + LAUNCH + 40 * plan.parts + 4 * (2 * plan.parts + 1) * self.m * self.n / ADDED


#: m, n and k of a product; k is a function of the tile where terms are padded to the tile's bk.
Sizes = tuple[int, int, int | Callable[[Tile], int]]


def gemm(
    sizes: Sizes, limits: Limits, is_whole: bool = True, tiles: tuple[Tile, ...] = CANDIDATES,
    copies: Copies = (ACROSS, ACROSS)
) -> GemmProblem:  # fmt: skip
    """Cost problem of a product, with those tiles whose shared memory fits the device."""
    m, n, k = sizes
    terms = tuple((tile, k(tile) if callable(k) else k) for tile in tiles if tile.shared <= limits.shared_opt_in)
    return GemmProblem(m, n, terms, limits.multiprocessors, is_whole, copies)
