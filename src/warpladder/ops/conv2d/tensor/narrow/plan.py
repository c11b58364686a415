"""Plans of the narrow kernels: the rows of an image that a block computes; and their cost models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .....device import Limits
from ....cost.launch import blocks_by_shared, blocks_each
from ....cost.plans import CostProblem
from ....engine.kernels import ceil_div
from ...problem import Image
from ..formats import FactorFormat

#: As in narrow.cu: most warps of a block, pixels, outputs of its sums; in narrow_weights.cu: most warps, channels.
WARPS, TILE, OUTPUTS, WEIGHT_WARPS, CHUNK = 18, 32, 16, 12, 16
#: Most bytes of static shared memory of a block of narrow_weights.cu.
STATIC = 3072
#: Cycles of a multiprocessor for a warp to copy its turn of pixels, or of windows, and for a tap of 16 channels of its
#: sums, by instructions; cycles of a lone warp for each; cycles of a wait: assumed.
PIXELS, WINDOWS, TAP, ALONE, WAIT = 64, 130, 18, 10, 2500


def width(channels: int) -> int:
    """Channel count for which the kernels are compiled: 16 or 32, padded by zeros."""
    return ceil_div(channels, 16) * 16


def row_bytes(channels: int, kind: FactorFormat) -> int:
    """Bytes of shared memory of a pixel's channels, or of an output's weights at a tap: an odd number of 16 bytes."""
    return width(channels) * kind.bytes + 16


@dataclass(frozen=True)
class NarrowShape:
    """Shape of a stride-1 convolution of few channels.

    read, written : (channels, rows, columns) of the input, and of the output before a pool.
    k, padding : side and zero padding of the window.
    pool : True if a 2 x 2 pool follows.
    pooled : True if the input image is the gradient of a 2 x 2 pool.
    """

    read: Image
    written: Image
    k: int
    padding: int
    pool: bool = False
    pooled: bool = False

    @property
    def back(self) -> NarrowShape:
        """Shape of the convolution in the other direction, which computes dx."""
        return NarrowShape(self.written, self.read, self.k, self.k - 1 - self.padding, pooled=self.pool)

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns of computed pixels; with a pool, only those in whole windows."""
        _, high, wide = self.written
        return (high // 2 * 2, wide // 2 * 2) if self.pool else (high, wide)

    @property
    def across(self) -> tuple[int, int]:
        """Pixels of a row that a block copies, and pixels that it writes; windows where a pool's gradient or output is
        handled.
        """
        columns, padding, wide = self.written[2] + self.k - 1, self.padding, self.made[1]
        brought = (columns - 1 - padding) // 2 - -padding // 2 + 1 if self.pooled else columns
        return brought, wide // 2 if self.pool else wide

    @property
    def bands(self) -> range:
        """Possible numbers of rows of a block; with a pool, even numbers."""
        step = 2 if self.pool else 1
        return range(step, self.made[0] + 1, step)

    def halo(self, rows: int) -> int:
        """Number of input pixels that a block reads for `rows` rows."""
        return (rows + self.k - 1) * (self.written[2] + self.k - 1)

    def packed(self, kind: FactorFormat) -> int:
        """Bytes of the packed weights and their inverse scales."""
        return width(self.written[0]) * (self.k**2 * row_bytes(self.read[0], kind) + (4 if kind.has_scales else 0))

    def shared(self, rows: int, kind: FactorFormat) -> int:
        """Bytes of shared memory of a block of `convolve_narrow`."""
        return self.packed(kind) + 4 * width(self.written[0]) + self.halo(rows) * row_bytes(self.read[0], kind)

    def items(self, rows: int) -> int:
        """Number of warp tiles of sums in `rows` rows."""
        return ceil_div(rows * self.made[1], TILE) * ceil_div(self.written[0], OUTPUTS)

    def turns(self, rows: int) -> int:
        """Number of rounds in which the warps copy `rows` rows: a lane copies eight channels of a pixel, or of a
        window.
        """
        high, wide = rows + self.k - 1, self.written[2] + self.k - 1
        return ceil_div((high // 2 + 1) * (wide // 2 + 1) if self.pooled else high * wide, 256 // width(self.read[0]))

    def warps(self, rows: int) -> int:
        """Number of warps of a block of `convolve_narrow`: one for each warp tile of sums, or for each round of
        copying, up to WARPS.
        """
        return max(4, min(WARPS, max(self.items(rows), self.turns(rows) // (1 if self.pooled else 2))))


@dataclass(frozen=True)
class NarrowConvolve(CostProblem[int]):
    """Cost problem of y or dx of n images by `convolve_narrow`. A plan is the number of rows of a block."""

    n: int
    shape: NarrowShape
    kind: FactorFormat
    limits: Limits

    def plans(self) -> Iterator[int]:
        for rows in self.shape.bands:
            if self.shape.shared(rows, self.kind) > self.limits.shared_opt_in:
                break
            yield rows

    def cycles(self, plan: int) -> float:
        """Cycles of the busiest multiprocessor."""
        shape, limits = self.shape, self.limits
        turn, item = WINDOWS if shape.pooled else PIXELS, shape.k**2 * (width(shape.read[0]) // 16) * TAP
        warps, each = shape.warps(plan), blocks_each(self.n * ceil_div(shape.made[0], plan), limits)
        by_shared = blocks_by_shared(shape.shared(plan, self.kind), limits.shared_per_multiprocessor)
        turns, items = shape.turns(plan), shape.items(plan)
        busy = each * (turns * turn + items * item)
        alone = WAIT + ALONE * (ceil_div(turns, warps) * turn + ceil_div(items, warps) * item)
        return max(busy, ceil_div(each, max(1, min(by_shared, WARPS // warps))) * alone)


class NarrowPlan(NamedTuple):
    """Plan of `correlate_narrow`: rows of a tile, tiles of a block, and blocks."""

    rows: int
    depth: int
    blocks: int


@dataclass(frozen=True)
class NarrowCorrelate(CostProblem[NarrowPlan]):
    """Cost problem of dw of n images by `correlate_narrow`; with a pool dy is the pool's gradient."""

    n: int
    shape: NarrowShape
    kind: FactorFormat
    limits: Limits

    @property
    def chunks(self) -> int:
        """Number of blocks that share a tile's pixels, each for CHUNK channels of x."""
        return ceil_div(self.shape.read[0], CHUNK)

    def most(self, capacity: int) -> int:
        """Largest number of split-K parts: at most one for each multiprocessor, or for each row."""
        return min(ceil_div(self.limits.multiprocessors, self.chunks), capacity * self.shape.written[1])

    @property
    def groups(self) -> int:
        """Number of groups of warps in a block that divide its pixels."""
        return WEIGHT_WARPS // self._units

    @property
    def warps(self) -> int:
        """Number of warps of a block of `correlate_narrow`."""
        return self.groups * self._units

    @property
    def _units(self) -> int:
        """Number of warps that together cover all taps, each up to three taps of a row."""
        return ceil_div(self.shape.k, 3) * self.shape.k

    def fits(self, rows: int) -> bool:
        """True if registers hold `rows` rows: 32 input pixels a warp, and with a pool eight windows of dy (16 of few
        outputs).
        """
        o, _, wide = self.shape.written
        windows = ceil_div(rows, 2) * ceil_div(wide, 2) * width(o) // 8
        return self.shape.halo(rows) <= 32 * self.warps and (not self.shape.pool or windows <= 32 * self.warps)

    def shared(self, rows: int) -> int:
        """Bytes of shared memory of a block of `correlate_narrow`: its tiles, or the sums of all groups at the end."""
        o, _, wide = self.shape.written
        pixels = ceil_div(rows * wide, 32) * 32
        tiles = self.shape.halo(rows) * row_bytes(CHUNK, self.kind) + pixels * row_bytes(o, self.kind)
        return max(tiles, 4 * self.groups * width(o) * self.shape.k**2 * CHUNK)

    def plans(self) -> Iterator[NarrowPlan]:
        for rows in self.shape.bands:
            if not self.fits(rows) or self.shared(rows) + STATIC > self.limits.shared_opt_in:
                break
            tiles = self.n * ceil_div(self.shape.made[0], rows)
            depth = blocks_each(tiles * self.chunks, self.limits)
            yield NarrowPlan(rows, depth, ceil_div(tiles, depth))

    def cycles(self, plan: NarrowPlan) -> float:
        """Cycles of the busiest multiprocessor."""
        shape = self.shape
        taps = ceil_div(ceil_div(plan.rows * shape.written[2], 32), self.groups) * self.warps * shape.k
        return plan.depth * (WAIT + shape.turns(plan.rows) * 2 * PIXELS + taps * 2 * TAP)
