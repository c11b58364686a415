"""Which tiles a product of packed factors is cut into, and into how many parts its sums: the shapes there are, and a model of what each would take.

The model counts cycles of a multiprocessor: of its tensor cores, its schedulers, its shared memory and the second-level cache. It only has to order the
candidates, which the trainer's tuner times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ...device import Limits
from ...peaks import RATES, TENSOR
from ..kernels import ceil_div
from ..tiles import Plan, Planned, Tile
from .tensor_packed import Formats

#: What a multiprocessor multiplies in a cycle by mma.sync: FLOPs in bf16 or half, of the peak what was seen on an H200 (docs/tensor.md).
RATE = 0.56 * RATES[9, 0][TENSOR]["fp16"]

#: Bytes that a multiprocessor gets in a cycle from its shared memory, and from the second-level cache, as it was seen on an H200 (docs/rungs/tensor.md).
SHARED_BYTES, CACHE_BYTES = 128, 16

#: Cycles: of a step at least, from the barrier before it to the next one; of a launch, its first copies and its writing, as it was seen; of the last block's
#: wait for the others' parts.
WAIT, LAUNCH, ADDING = 450, 6000, 1500

#: Parts that a sum may be cut into.
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

#: How much longer than the fastest a plan may take by the model, so that there is room for its parts: as long as a tuner looks at it.
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
    def resident(self) -> int:
        """Blocks that fit a multiprocessor by their registers: a sum and a part of it for each number, and two fragments of each factor."""
        sums = self.tm * self.tn // 32
        registers = 250 if sums >= 64 else 168 if sums >= 32 else 128
        return max(1, min(65536 // (registers * self.threads), 4))

    def shared_of(self, formats: Formats) -> int:
        """Bytes of shared memory that a block takes."""
        return 4 * self.stages * (formats.words(self.bm, self.bn) + (self.bm + self.bn) * formats.kind.scales)

    def kernel(self, formats: Formats) -> str:
        """The instance of the kernel."""
        return f"multiply<{formats.name}, {self.bm}, {self.bn}, {self.tm}, {self.tn}, {self.stages}, {self.resident}>"


#: Large ones for large matrices, small ones to fill a device with blocks. All are made of blocks of 32 x 32, which are packed by a warp, and of whole
#: records of rows.
TILES = (
    PackedTile(128, 128, 32, 64, 32),
    PackedTile(128, 64, 32, 64, 32),
    PackedTile(64, 64, 32, 32, 32),
    PackedTile(64, 64, 32, 32, 16),
    PackedTile(64, 32, 32, 32, 16),
    PackedTile(64, 32, 32, 16, 16),
)


def cycles(tile: PackedTile, depth: int, parts: int, m: int, n: int, formats: Formats, limits: Limits) -> float:
    """What a product takes by the model, in cycles."""
    kind = formats.kind
    blocks = ceil_div(m, tile.bm) * ceil_div(n, tile.bn) * parts
    each = ceil_div(blocks, limits.multiprocessors)
    together = min(each, tile.resident, max(1, (227 << 10) // (tile.shared_of(formats) + 1024)))
    warps, lines = tile.threads // 32, tile.bm + tile.bn
    multiplying = 2 * tile.bm * tile.bn * kind.terms * formats.work / RATE
    fragments = sum(side // 16 * (2 if each.name == "SPLIT" else 1) for side, each in ((tile.tm, formats.a), (tile.tn, formats.b)))
    instructions = kind.terms // kind.mma * (tile.tm // 16 * (tile.tn // 8) * formats.products + fragments)
    instructions += kind.terms // 32 * tile.tm * tile.tn // 32 * (3 if kind.scaled else 2) + 3 * 8 * lines // tile.threads + 30
    copied = 4 * formats.words(tile.bm, tile.bn)
    sharing = (copied + 4 * warps * formats.words(tile.tm, tile.tn)) / SHARED_BYTES
    copying = copied / CACHE_BYTES
    busy = together * max(multiplying, instructions * warps / 4, sharing, copying)
    step = max(WAIT, busy) + min(WAIT, busy) / 4  # neither hides quite behind the other
    adding = ADDING + 4 * (parts + 1) * tile.bm * tile.bn / CACHE_BYTES if parts > 1 else 0
    return LAUNCH + ceil_div(each, together) * (depth + 2) * step + adding


@lru_cache(maxsize=1024)
def _sorted(m: int, n: int, k: int, formats: Formats, limits: Limits) -> tuple[tuple[Plan, float], ...]:
    """Every plan that fits the device, with its cycles, the fastest first."""
    records, found = ceil_div(k, formats.kind.terms), {}
    for tile in TILES:
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

    Attributes
    ----------
    room : int
        Numbers that the parts of sums take together, at most.
    counters : int
        Tiles whose sums are cut into parts, at most.
    """

    def __init__(
        self, shape: Callable[[int], tuple[int, int, int]], limits: Limits, capacity: int, formats: Formats
    ) -> None:  # fmt: skip
        self.of, self.limits, self.formats = shape, limits, formats
        self.shape = shape
        self.chosen: dict[int, Plan] = {}
        self.room = self.counters = 0
        for samples in {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}:
            plans = _sorted(*shape(samples), formats, limits)
            for plan, taken in plans:
                if plan.parts > 1 and taken <= plans[0][1] * WITHIN:
                    tiles = _tiles(plan, *shape(samples)[:2])
                    self.room = max(self.room, tiles * plan.parts * plan.tile.bm * plan.tile.bn)
                    self.counters = max(self.counters, tiles)

    def options(self, n: int) -> list[Plan]:
        m, columns, k = self.of(n)
        return [plan for plan, _ in _sorted(m, columns, k, self.formats, self.limits) if plan.parts == 1 or self._fits(plan, m, columns)]

    def cycles(self, n: int, plan: Plan) -> float:
        m, columns, _ = self.of(n)
        assert isinstance(plan.tile, PackedTile)
        return cycles(plan.tile, plan.depth, plan.parts, m, columns, self.formats, self.limits)

    def _fits(self, plan: Plan, m: int, n: int) -> bool:
        tiles = _tiles(plan, m, n)
        return tiles <= self.counters and tiles * plan.parts * plan.tile.bm * plan.tile.bn <= self.room


def _tiles(plan: Plan, m: int, n: int) -> int:
    return ceil_div(m, plan.tile.bm) * ceil_div(n, plan.tile.bn)
