"""Which tiles a product of packed factors is cut into, and into how many parts its sums: the shapes there are, and a
model of what each would take.

The model counts cycles of a multiprocessor: of its tensor cores, its schedulers, its shared memory and the second-level
cache. It only has to order the candidates, which the trainer's tuner times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ....device import Device, Limits
from ....machine.peaks import HOPPER, RATES, TENSOR
from ...cost.tiles import Plan, Planned, Tile
from ...engine.kernels import ceil_div
from .packed import Formats

#: The kernels: of mma, for every GPU, and of wgmma, for Hopper alone.
SOURCE = Path(__file__).with_name("product.cu")
WARPGROUPS = Path(__file__).with_name("warpgroups.cu")

#: What a multiprocessor multiplies in a cycle by wgmma, and by mma.sync: FLOPs in bf16 or half, of the peak what was
#: seen on an H200 (docs/tensor.md).
PEAK = RATES[HOPPER][TENSOR]["fp16"]
RATE = 0.56 * PEAK

#: Bytes that a multiprocessor gets in a cycle from its shared memory, and from the second-level cache, as it was seen
#: on an H200 (docs/rungs/tensor.md): by tensor.cu, and at most.
SHARED_BYTES, CACHE_BYTES, CACHE_BYTES_ASIDE = 128, 16, 64

#: Cycles: of a step at least, from the barrier before it to the next one; of a launch, its first copies and its
#: writing, as it was seen; of the last block's wait for the others' parts. Of a warpgroup: between two instructions of
#: a warp, as it was seen, and for its products; and, estimated, until the blocks of a cluster know of each other's
#: barriers.
WAIT, LAUNCH, ADDING, EACH, WAIT_ASIDE, MEETING = 450, 6000, 1500, 4, 100, 500

#: Parts that a sum may be cut into.
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

#: How much longer than the fastest a plan may take by the model, so that there is room for its parts: as long as a
#: tuner looks at it.
WITHIN = 1.3


@dataclass(frozen=True)
class PackedTile(Tile):
    """The template arguments of `multiply`.

    bm, bn : rows and columns of C that a block makes.
    bk : terms with one scale; a step takes one record.
    tm, tn : rows and columns that a warp makes.
    stages : panels of A and B that shared memory holds.
    """

    stages: int = 3

    @property
    def threads(self) -> int:
        return 32 * (self.bm // self.tm) * (self.bn // self.tn)

    @property
    def source(self) -> Path:
        """The file of the kernel."""
        return SOURCE

    @property
    def cluster(self) -> tuple[int, int]:
        """Blocks of a cluster, along m and along n."""
        return 1, 1

    @property
    def resident(self) -> int:
        """Blocks that fit a multiprocessor by their registers: a sum and a part of it for each number, and two
        fragments of each factor.
        """
        sums = self.tm * self.tn // 32
        registers = 250 if sums >= 64 else 168 if sums >= 32 else 128
        return max(1, min(65536 // (registers * self.threads), 4))

    def shared_of(self, formats: Formats) -> int:
        """Bytes of shared memory that a block takes."""
        return 4 * self.stages * (formats.words(self.bm, self.bn) + (self.bm + self.bn) * formats.kind.scales)

    def kernel(self, formats: Formats) -> str:
        """The instance of the kernel."""
        return f"multiply<{formats.name}, {self.bm}, {self.bn}, {self.tm}, {self.tn}, {self.stages}, {self.resident}>"

    def blocks(self, m: int, n: int) -> int:
        """Tiles of C (m, n)."""
        down, across = self.cluster
        return ceil_div(m, self.bm * down) * down * ceil_div(n, self.bn * across) * across

    def step(self, formats: Formats, blocks: int) -> float:
        """Cycles of a record, by the model, where so many blocks share a multiprocessor."""
        kind, warps, lines = formats.kind, self.threads // 32, self.bm + self.bn
        multiplying = 2 * self.bm * self.bn * kind.terms * formats.work / RATE
        fragments = sum(
            side // 16 * (2 if each.name == "SPLIT" else 1)
            for side, each in ((self.tm, formats.a), (self.tn, formats.b))
        )
        instructions = kind.terms // kind.mma * (self.tm // 16 * (self.tn // 8) * formats.products + fragments)
        instructions += (
            kind.terms // 32 * self.tm * self.tn // 32 * (3 if kind.scaled else 2) + 3 * 8 * lines // self.threads + 30
        )
        copied = 4 * formats.words(self.bm, self.bn)
        sharing = (copied + 4 * warps * formats.words(self.tm, self.tn)) / SHARED_BYTES
        working = blocks * max(multiplying, instructions * warps / 4, sharing, copied / CACHE_BYTES)
        return max(WAIT, working) + min(WAIT, working) / 4  # neither hides quite behind the other


@dataclass(frozen=True)
class WarpgroupTile(PackedTile):
    """The template arguments of `multiply` by warpgroups, each of which makes 64 rows of a tile: tm is 64, and tn is
    bn.

    shares : warpgroups with the same rows, which take records in turn.
    cm, cn : blocks of a cluster along m, which share the panel of B, and along n, which share A's.
    """

    shares: int = 1
    cm: int = 1
    cn: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block: those of its warpgroups, and of the warp that asks for panels."""
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
        """Blocks that fit a multiprocessor by their registers: of two warpgroups with 64 rows two, whose kernel is held
        to as many registers as that allows.
        """
        return 2 if self.bm == 64 and self.shares <= 2 else 1

    def shared_of(self, formats: Formats) -> int:
        """As a `PackedTile`, and what brings the first panel to a multiple of 1,024."""
        return super().shared_of(formats) + 1024

    def kernel(self, formats: Formats) -> str:
        return f"multiply<{formats.name}, {self.bm}, {self.bn}, {self.shares}, {self.stages}, {self.cm}, {self.cn}>"

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.shares}, {self.cm}, {self.cn}"

    def step(self, formats: Formats, blocks: int) -> float:
        """Cycles of a record: what all warpgroups share, or what a warpgroup takes from one of its records to the next,
        whatever is more.
        """
        kind, groups = formats.kind, self.bm // 64 * self.shares
        steps = kind.terms // kind.mma * formats.products  # products of a record, each of 64 x bn numbers
        multiplying = 2 * self.bm * self.bn * kind.terms * formats.work / PEAK
        copied = 4 * formats.words(self.bm // self.cn, self.bn // self.cm)
        sharing = (4 * formats.words(self.bm, self.bn) + steps * (self.bm // 64) * 32 * (64 + self.bn)) / SHARED_BYTES
        leaving = kind.terms // (32 if kind.scaled else kind.terms)  # times that sums leave the tensor cores
        instructions = 50 * leaving + (3 if kind.scaled else 1) * leaving * self.bn // 2  # of a warp
        alone = EACH * instructions + steps * self.bn / 2 + WAIT_ASIDE * leaving
        return max(
            blocks * max(multiplying, sharing, instructions * groups / self.shares, copied / CACHE_BYTES_ASIDE),
            alone / self.shares,
        )


#: Large ones for large matrices, small ones to fill a device with blocks. All are made of blocks of 32 x 32, which are
#: packed by a warp, and of whole records of rows.
TILES = (
    PackedTile(128, 128, 32, 64, 32),
    PackedTile(128, 64, 32, 64, 32),
    PackedTile(64, 64, 32, 32, 32),
    PackedTile(64, 64, 32, 32, 16),
    PackedTile(64, 32, 32, 32, 16),
    PackedTile(64, 32, 32, 16, 16),
)


#: Tiles of warpgroups, which Hopper has beside `TILES`. Several warpgroups share a tile's records where a
#: multiprocessor has one block and a block few terms.
OF_WARPGROUPS = (
    WarpgroupTile(128, 128, 32, 64, 128, 5),
    WarpgroupTile(128, 64, 32, 64, 64, 7),
    WarpgroupTile(128, 64, 32, 64, 64, 8, shares=2),
    WarpgroupTile(64, 64, 32, 64, 64, 6, shares=2),
    WarpgroupTile(64, 64, 32, 64, 64, 6, shares=2, cm=2, cn=2),
    WarpgroupTile(64, 64, 32, 64, 64, 8, shares=4),
)


def tiles_of(device: Device) -> tuple[PackedTile, ...]:
    """The tiles that there are on a device."""
    return (*TILES, *OF_WARPGROUPS) if device.capability == HOPPER else TILES


def cycles(tile: PackedTile, depth: int, parts: int, m: int, n: int, formats: Formats, limits: Limits) -> float:
    """What a product takes by the model, in cycles."""
    each = ceil_div(tile.blocks(m, n) * parts, limits.multiprocessors)
    together = min(each, tile.resident, max(1, (227 << 10) // (tile.shared_of(formats) + 1024)))
    adding = ADDING + 4 * (parts + 1) * tile.bm * tile.bn / CACHE_BYTES if parts > 1 else 0
    meeting = MEETING if tile.cluster != (1, 1) else 0
    return LAUNCH + meeting + ceil_div(each, together) * (depth + 2) * tile.step(formats, together) + adding


@lru_cache(maxsize=1024)
def _sorted(
    m: int, n: int, k: int, formats: Formats, limits: Limits, tiles: tuple[PackedTile, ...]
) -> tuple[tuple[Plan, float], ...]:  # fmt: skip
    """Every plan that fits the device, with its cycles, the fastest first."""
    records, found = ceil_div(k, formats.kind.terms), {}
    for tile in tiles:
        if tile.shared_of(formats) > limits.shared_opt_in:
            continue
        for depth in dict.fromkeys(ceil_div(records, parts) for parts in PARTS if parts <= max(1, records // 2)):
            parts = ceil_div(records, depth)
            found[Plan(tile, depth, parts)] = cycles(tile, depth, parts, m, n, formats, limits)
    return tuple(sorted(found.items(), key=lambda plan: plan[1]))


class PackedPlanned(Planned):
    """The plans of one product of packed factors; as `Planned`. A plan's depth counts records.

    Parameters
    ----------
    shape : callable
        m, n and k for a number of samples.
    limits : Limits
    capacity : int
        Samples at most.
    formats : Formats
    tiles : tuple of PackedTile
        Those that the device has kernels for.

    Attributes
    ----------
    room : int
        Numbers that the parts of sums take together, at most.
    counters : int
        Tiles whose sums are cut into parts, at most.
    """

    def __init__(
        self, shape: Callable[[int], tuple[int, int, int]], limits: Limits, capacity: int, formats: Formats,
        tiles: tuple[PackedTile, ...] = TILES,
    ) -> None:  # fmt: skip
        self.of, self.limits, self.formats, self.of_tiles = shape, limits, formats, tiles
        self.shape = shape
        self.chosen: dict[int, Plan] = {}
        self.room = self.counters = 0
        for samples in {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}:
            plans = _sorted(*shape(samples), formats, limits, self.of_tiles)
            for plan, taken in plans:
                if plan.parts > 1 and taken <= plans[0][1] * WITHIN:
                    count = _tiles(plan, *shape(samples)[:2])
                    self.room = max(self.room, count * plan.parts * plan.tile.bm * plan.tile.bn)
                    self.counters = max(self.counters, count)

    def options(self, n: int) -> list[Plan]:
        m, columns, k = self.of(n)
        return [
            plan
            for plan, _ in _sorted(m, columns, k, self.formats, self.limits, self.of_tiles)
            if plan.parts == 1 or self._fits(plan, m, columns)
        ]

    def cycles(self, n: int, plan: Plan) -> float:
        m, columns, _ = self.of(n)
        assert isinstance(plan.tile, PackedTile)
        return cycles(plan.tile, plan.depth, plan.parts, m, columns, self.formats, self.limits)

    def _fits(self, plan: Plan, m: int, n: int) -> bool:
        tiles = _tiles(plan, m, n)
        return tiles <= self.counters and tiles * plan.parts * plan.tile.bm * plan.tile.bn <= self.room


def _tiles(plan: Plan, m: int, n: int) -> int:
    assert isinstance(plan.tile, PackedTile)
    return plan.tile.blocks(m, n)
