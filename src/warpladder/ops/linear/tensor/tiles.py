"""Tiles of a product of packed factors: their shapes, and a product's cycles with each.

The model counts cycles of a multiprocessor: of tensor cores, schedulers, shared memory and second-level cache.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ....device import Device, Limits
from ....machine.peaks import HOPPER, RATES, TENSOR
from ...cost.launch import blocks_by_shared, blocks_each, overlapped
from ...cost.plans import CostProblem, Planner, depths, ranked
from ...cost.tiles import Tile, TilePlan, TileProblem
from ...engine.kernels import ceil_div
from .packed import Formats

#: Kernels by mma, for every GPU, and by wgmma, for Hopper alone.
SOURCE = Path(__file__).with_name("product.cu")
WARPGROUPS = Path(__file__).with_name("warpgroups.cu")
#: FLOPs of a multiprocessor in a cycle, in bf16 or half: by wgmma the peak, by mma.sync a share of it (docs/tensor.md).
PEAK = RATES[HOPPER][TENSOR]["fp16"]
RATE = 0.56 * PEAK
#: Bytes that a multiprocessor gets in a cycle from its shared memory, and from the second-level cache, measured on an
#: H200 (docs/rungs/tensor.md): by product.cu, and by the asynchronous copies of warpgroups.cu.
SHARED_BYTES, CACHE_BYTES, CACHE_BYTES_ASYNC = 128, 16, 64
#: Cycles of a step at least, from barrier to barrier; of a launch's first copies and its stores, measured; of the last
#: block's wait for the partials of others; between two instructions of a warp in a warpgroup, measured, and of the wait
#: for its products; and, estimated, until the blocks of a cluster can read each other's barriers.
WAIT, LAUNCH, ADDING, EACH, WAIT_WGMMA, CLUSTER_START = 450, 6000, 1500, 4, 100, 500
#: Numbers of parts of a sum.
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Scratch memory holds the partials of every plan at most this much slower than the fastest by the model, for a tuner.
WITHIN = 1.3


@dataclass(frozen=True)
class PackedTile(Tile):
    """Tile of a product of packed factors: template arguments of `multiply` in product.cu.

    bm, bn : rows and columns of C that a block computes.
    bk : terms with one scale; a step takes one record.
    tm, tn : rows and columns of C that a warp computes.
    stages : panels of A and B that shared memory holds.
    """

    stages: int = 3

    @property
    def threads(self) -> int:
        return 32 * (self.bm // self.tm) * (self.bn // self.tn)

    @property
    def source(self) -> Path:
        """Kernel's source file."""
        return SOURCE

    @property
    def cluster(self) -> tuple[int, int]:
        """Blocks of a cluster, along m and along n."""
        return 1, 1

    @property
    def resident(self) -> int:
        """Number of blocks that fit a multiprocessor by registers: sums and their parts, and two fragments of each
        factor.
        """
        sums = self.tm * self.tn // 32
        registers = 250 if sums >= 64 else 168 if sums >= 32 else 128
        return max(1, min(65536 // (registers * self.threads), 4))

    def shared_of(self, formats: Formats) -> int:
        """Bytes of shared memory of a block."""
        return 4 * self.stages * (formats.words(self.bm, self.bn) + (self.bm + self.bn) * formats.kind.scales)

    def kernel(self, formats: Formats) -> str:
        """Name of the kernel's instance, with its template arguments."""
        return f"multiply<{formats.name}, {self.bm}, {self.bn}, {self.tm}, {self.tn}, {self.stages}, {self.resident}>"

    def blocks(self, m: int, n: int) -> int:
        """Number of tiles that cover C (m, n), in whole clusters."""
        down, across = self.cluster
        return ceil_div(m, self.bm * down) * down * ceil_div(n, self.bn * across) * across

    def step(self, formats: Formats, blocks: int) -> float:
        """Estimated cycles of a record if `blocks` blocks share a multiprocessor."""
        kind, warps, lines = formats.kind, self.threads // 32, self.bm + self.bn
        multiplying = 2 * self.bm * self.bn * kind.terms * formats.work / RATE
        sides = (self.tm, formats.a), (self.tn, formats.b)
        fragments = sum(side // 16 * (2 if each.name == "SPLIT" else 1) for side, each in sides)
        instructions = kind.terms // kind.mma * (self.tm // 16 * (self.tn // 8) * formats.products + fragments)
        instructions += kind.terms // 32 * self.tm * self.tn // 32 * (3 if kind.has_scales else 2)
        instructions += 3 * 8 * lines // self.threads + 30
        copied = 4 * formats.words(self.bm, self.bn)
        sharing = (copied + 4 * warps * formats.words(self.tm, self.tn)) / SHARED_BYTES
        working = blocks * max(multiplying, instructions * warps / 4, sharing, copied / CACHE_BYTES)
        return overlapped(WAIT, working)


@dataclass(frozen=True)
class WarpgroupTile(PackedTile):
    """Tile of a wgmma product: template arguments of `multiply` in warpgroups.cu. A warpgroup computes 64 rows, tm =
    64, tn = bn.

    shares : warpgroups with the same rows, which take records in turn.
    cm, cn : blocks of a cluster along m, which share the panel of B, and along n, which share the panel of A.
    """

    shares: int = 1
    cm: int = 1
    cn: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block: its warpgroups, and the warp that starts the copies of panels."""
        return 128 * self.shares * (self.bm // 64) + 32

    @property
    def source(self) -> Path:
        return WARPGROUPS

    @property
    def kind(self) -> str:
        return "wgmma in clusters" if self.cm * self.cn > 1 else f"wgmma of {self.bm} rows"

    @property
    def cluster(self) -> tuple[int, int]:
        return self.cm, self.cn

    @property
    def resident(self) -> int:
        """Number of blocks that fit a multiprocessor by registers: two of up to 2 warpgroups with 64 rows, else one."""
        return 2 if self.bm == 64 and self.shares <= 2 else 1

    def shared_of(self, formats: Formats) -> int:
        """Bytes of shared memory of a block, including up to 1,024 to align the first panel."""
        return super().shared_of(formats) + 1024

    def kernel(self, formats: Formats) -> str:
        return f"multiply<{formats.name}, {self.bm}, {self.bn}, {self.shares}, {self.stages}, {self.cm}, {self.cn}>"

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.shares}, {self.cm}, {self.cn}"

    def step(self, formats: Formats, blocks: int) -> float:
        """Estimated cycles of a record: the longer of the shared units and a warpgroup's dependent instructions."""
        kind, groups = formats.kind, self.bm // 64 * self.shares
        steps = kind.terms // kind.mma * formats.products  # products of a record, each of 64 x bn numbers
        multiplying = 2 * self.bm * self.bn * kind.terms * formats.work / PEAK
        copied = 4 * formats.words(self.bm // self.cn, self.bn // self.cm)
        sharing = (4 * formats.words(self.bm, self.bn) + steps * (self.bm // 64) * 32 * (64 + self.bn)) / SHARED_BYTES
        leaving = kind.terms // (32 if kind.has_scales else kind.terms)  # times that sums leave the tensor cores
        instructions = 50 * leaving + (3 if kind.has_scales else 1) * leaving * self.bn // 2  # of a warp
        alone = EACH * instructions + steps * self.bn / 2 + WAIT_WGMMA * leaving
        return max(
            blocks * max(multiplying, sharing, instructions * groups / self.shares, copied / CACHE_BYTES_ASYNC),
            alone / self.shares,
        )


#: Large tiles for large matrices, small ones to fill a device with blocks; made of 32 x 32 blocks and whole records.
TILES = (
    PackedTile(128, 128, 32, 64, 32), PackedTile(128, 64, 32, 64, 32), PackedTile(64, 64, 32, 32, 32),
    PackedTile(64, 64, 32, 32, 16), PackedTile(64, 32, 32, 32, 16), PackedTile(64, 32, 32, 16, 16),
)  # fmt: skip


#: Tiles of warpgroups, which Hopper has next to `TILES`. Several share the records of a tile if blocks are few.
OF_WARPGROUPS = (
    WarpgroupTile(128, 128, 32, 64, 128, 5), WarpgroupTile(128, 64, 32, 64, 64, 7),
    WarpgroupTile(128, 64, 32, 64, 64, 8, shares=2), WarpgroupTile(64, 64, 32, 64, 64, 6, shares=2),
    WarpgroupTile(64, 64, 32, 64, 64, 6, shares=2, cm=2, cn=2), WarpgroupTile(64, 64, 32, 64, 64, 8, shares=4),
)  # fmt: skip


def tiles_of(device: Device) -> tuple[PackedTile, ...]:
    """Tiles for which a device has kernels."""
    return (*TILES, *OF_WARPGROUPS) if device.capability == HOPPER else TILES


@dataclass(frozen=True)
class PackedProblem(TileProblem):
    """Cost problem of C (m, n) = A B of packed factors with sums of k terms. A plan's depth counts records."""

    m: int
    n: int
    k: int
    formats: Formats
    limits: Limits
    tiles: tuple[PackedTile, ...] = TILES

    def plans(self) -> Iterator[TilePlan]:
        records = ceil_div(self.k, self.formats.kind.terms)
        some = tuple(parts for parts in PARTS if parts <= max(1, records // 2))
        for tile in self.tiles:
            if tile.shared_of(self.formats) <= self.limits.shared_opt_in:
                for depth in depths(records, some):
                    yield TilePlan(tile, depth, ceil_div(records, depth))

    def cycles(self, plan: TilePlan) -> float:
        tile = packed(plan)
        each = blocks_each(tile.blocks(self.m, self.n) * plan.parts, self.limits)
        by_shared = max(1, blocks_by_shared(tile.shared_of(self.formats), 227 << 10))
        together = min(each, tile.resident, by_shared)
        adding = ADDING + 4 * (plan.parts + 1) * tile.bm * tile.bn / CACHE_BYTES if plan.parts > 1 else 0
        start = LAUNCH + (CLUSTER_START if tile.cluster != (1, 1) else 0)
        return start + ceil_div(each, together) * (plan.depth + 2) * tile.step(self.formats, together) + adding

    def partials(self, plan: TilePlan) -> int:
        return self.counters(plan) * plan.parts * plan.tile.bm * plan.tile.bn

    def counters(self, plan: TilePlan) -> int:
        """Number of counters of arrived blocks, one for each tile; 0 without split-K."""
        return packed(plan).blocks(self.m, self.n) if plan.parts > 1 else 0

    def work(self, plan: TilePlan) -> int:
        return self.m * self.n * self.k


class PackedPlanner(Planner[TilePlan]):
    """Plan of one product of packed factors for any number of samples.

    counters : largest number of tiles whose sums are split.
    """

    counters: int

    def _reserve(self, problems: Iterable[CostProblem[TilePlan]]) -> None:
        self.partials = self.counters = 0
        for problem in problems:
            assert isinstance(problem, PackedProblem)
            plans = ranked(problem)
            longest = min(plans.values()) * WITHIN
            for plan, cycles in plans.items():
                if plan.parts > 1 and cycles <= longest:
                    self.partials = max(self.partials, problem.partials(plan))
                    self.counters = max(self.counters, problem.counters(plan))

    def fits(self, problem: CostProblem[TilePlan], plan: TilePlan) -> bool:
        assert isinstance(problem, PackedProblem)
        return problem.counters(plan) <= self.counters and super().fits(problem, plan)


def packed_planner(
    sizes: Callable[[int], tuple[int, int, int]], limits: Limits, capacity: int, formats: Formats,
    tiles: tuple[PackedTile, ...] = TILES
) -> PackedPlanner:  # fmt: skip
    """Planner of a product of packed factors; `sizes` gives m, n and k for a number of samples."""
    return PackedPlanner(lambda n: PackedProblem(*sizes(n), formats, limits, tiles), capacity)


def packed(plan: TilePlan) -> PackedTile:
    """Tile of a plan, as a tile of packed factors."""
    assert isinstance(plan.tile, PackedTile)
    return plan.tile
