"""Convolutions of few channels and outputs on tensor cores, as launches: kernels that keep all channels of some rows of
an image, and all weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .....device import Array, Launch, Limits
from ....engine.kernels import Launches, OnDevice, ceil_div
from ...gradients import Gradients, columns, finish
from ...products import Image
from ..general.general import FORMATS as GENERAL
from ..general.general import Format

SOURCE = Path(__file__).with_name("narrow.cu")
PACK = Path(__file__).with_name("narrow_pack.cu")
WEIGHTS = Path(__file__).with_name("narrow_weights.cu")

#: Channels, and outputs, of a layer that these kernels take; rows and columns of its window at most.
CHANNELS, WINDOW = (8, 16, 24, 32), 5

#: As in narrow.cu: warps of a block at most, pixels and outputs of a warp's sums; in narrow_weights.cu: warps of a
#: block at most, and its channels of x; and threads of a block of narrow_pack.cu.
WARPS, TILE, OUTPUTS, WEIGHT_WARPS, SLAB, PACKING = 18, 32, 16, 12, 16, 128

#: Bytes of shared memory that a block of narrow_weights.cu has besides, at most.
STATIC = 3072

#: Cycles of a multiprocessor for a warp to bring its turn of pixels, or of windows, and for a tap of 16 channels of its
#: sums, by the instructions that these take; cycles that a warp takes for each of the three where it is alone; and that
#: a block waits for memory: assumed.
PIXELS, WINDOWS, TAP, ALONE, WAIT = 64, 130, 18, 10, 2500

#: By the precision that products are asked for in: tf32's numbers have the 11 bits of a half, so they are halves with a
#: scale, at twice tf32's rate.
FORMATS = GENERAL | {"tf32": GENERAL["fp16"]}


def width(channels: int) -> int:
    """Channels as the kernels are compiled for them: 16 or 32, zeros beyond the last one."""
    return ceil_div(channels, 16) * 16


def inverse(number: int) -> int:
    """What narrow.cuh's Divider multiplies by instead of dividing by a number: 2^32 / number, rounded up; 0 for 1,
    whose does not fit 32 bits.
    """
    return 0 if number == 1 else (2**32 - 1) // number + 1


def row_bytes(channels: int, kind: Format) -> int:
    """Bytes of shared memory of a pixel's channels, or of an output's at a tap: an odd number of 16."""
    return width(channels) * kind.bytes + 16


@dataclass(frozen=True)
class Shape:
    """Which image a convolution of stride 1 reads, which it writes, before a pool, and by which window.

    read, written : (channels, rows, columns).
    pool : whether a 2 x 2 pool follows.
    pooled : whether what is read comes as a 2 x 2 pool sends it back.
    """

    read: Image
    written: Image
    k: int
    padding: int
    pool: bool = False
    pooled: bool = False

    @property
    def back(self) -> Shape:
        """The convolution that goes the other way, by which the input's gradient is computed."""
        return Shape(self.written, self.read, self.k, self.k - 1 - self.padding, pooled=self.pool)

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns that are computed: with a pool those that make whole windows."""
        _, high, wide = self.written
        return (high // 2 * 2, wide // 2 * 2) if self.pool else (high, wide)

    @property
    def across(self) -> tuple[int, int]:
        """Side by side, the pixels that a block brings and those that it writes; windows where it goes through them."""
        columns, padding, wide = self.written[2] + self.k - 1, self.padding, self.made[1]
        return (
            columns - 1 - padding
        ) // 2 - -padding // 2 + 1 if self.pooled else columns, wide // 2 if self.pool else wide

    @property
    def bands(self) -> range:
        """How many rows a block may have: with a pool those of whole windows."""
        step = 2 if self.pool else 1
        return range(step, self.made[0] + 1, step)

    def halo(self, rows: int) -> int:
        """Pixels that are read for so many rows."""
        return (rows + self.k - 1) * (self.written[2] + self.k - 1)

    def packed(self, kind: Format) -> int:
        """Bytes of the packed weights, and of what undoes their scales."""
        return width(self.written[0]) * (self.k**2 * row_bytes(self.read[0], kind) + (4 if kind.scaled else 0))

    def shared(self, rows: int, kind: Format) -> int:
        """Bytes of shared memory of a block of `convolve_narrow`."""
        return self.packed(kind) + 4 * width(self.written[0]) + self.halo(rows) * row_bytes(self.read[0], kind)

    def items(self, rows: int) -> int:
        """Warps' sums in so many rows."""
        return ceil_div(rows * self.made[1], TILE) * ceil_div(self.written[0], OUTPUTS)

    def turns(self, rows: int) -> int:
        """Turns of warps that bring so many rows: at each of pixels, or of windows, so many as lanes with eight
        channels make.
        """
        high, wide = rows + self.k - 1, self.written[2] + self.k - 1
        return ceil_div((high // 2 + 1) * (wide // 2 + 1) if self.pooled else high * wide, 256 // width(self.read[0]))

    def warps(self, rows: int) -> int:
        """Warps of a block of `convolve_narrow`: as many as it has warps' sums, or turns of bringing pixels."""
        return max(4, min(WARPS, max(self.items(rows), self.turns(rows) // (1 if self.pooled else 2))))

    def rows(self, n: int, kind: Format, limits: Limits) -> int:
        """Rows of a block: those with which the multiprocessor that has most to do is done first, by the model; 0 where
        not one fits shared memory.
        """
        high, found = self.made[0], {}
        turn, item = WINDOWS if self.pooled else PIXELS, self.k**2 * (width(self.read[0]) // 16) * TAP
        for rows in self.bands:
            if self.shared(rows, kind) > limits.shared_opt_in:
                break
            warps, each = self.warps(rows), ceil_div(n * ceil_div(high, rows), limits.multiprocessors)
            resident = min(limits.shared_per_multiprocessor // (self.shared(rows, kind) + 1024), WARPS // warps)
            busy = each * (self.turns(rows) * turn + self.items(rows) * item)
            alone = WAIT + ALONE * (ceil_div(self.turns(rows), warps) * turn + ceil_div(self.items(rows), warps) * item)
            found[rows] = max(busy, ceil_div(each, max(1, resident)) * alone)
        return min(found, key=lambda rows: found[rows], default=0)


@dataclass(frozen=True)
class Correlation:
    """How the weight gradient of a convolution is cut; with a pool dy is what that sends back."""

    shape: Shape

    @property
    def slabs(self) -> int:
        """Blocks that share a tile's pixels, each with SLAB channels of x."""
        return ceil_div(self.shape.read[0], SLAB)

    def most(self, capacity: int, limits: Limits) -> int:
        """Parts of a sum at most: not more than there are multiprocessors, or rows."""
        return min(ceil_div(limits.multiprocessors, self.slabs), capacity * self.shape.written[1])

    @property
    def groups(self) -> int:
        """Sets of a block's warps that share its pixels."""
        return WEIGHT_WARPS // self._units

    @property
    def warps(self) -> int:
        """Warps of a block of `correlate_narrow`."""
        return self.groups * self._units

    @property
    def _units(self) -> int:
        """Warps that have all taps together, each up to three of a row."""
        return ceil_div(self.shape.k, 3) * self.shape.k

    def fits(self, rows: int) -> bool:
        """Whether a block keeps so many rows in its registers until their scales are known: 32 pixels a warp, or of dy
        eight windows; sixteen of few outputs.
        """
        o, _, wide = self.shape.written
        windows = ceil_div(rows, 2) * ceil_div(wide, 2) * width(o) // 8
        return self.shape.halo(rows) <= 32 * self.warps and (not self.shape.pool or windows <= 32 * self.warps)

    def shared(self, rows: int, kind: Format) -> int:
        """Bytes of shared memory of a block of `correlate_narrow`: of its tiles, or of all groups' sums in the end."""
        o, _, wide = self.shape.written
        pixels = ceil_div(rows * wide, 32) * 32
        tiles = self.shape.halo(rows) * row_bytes(SLAB, kind) + pixels * row_bytes(o, kind)
        return max(tiles, 4 * self.groups * width(o) * self.shape.k**2 * SLAB)

    def cut(self, n: int, kind: Format, limits: Limits) -> tuple[int, int, int]:
        """Rows of a tile, tiles of a block, and blocks: those with which the multiprocessor that has most to do is done
        first, by the model.
        """
        shape, high, found = self.shape, self.shape.made[0], {}
        for rows in shape.bands:
            if not self.fits(rows) or self.shared(rows, kind) + STATIC > limits.shared_opt_in:
                break
            tiles = n * ceil_div(high, rows)
            depth = ceil_div(tiles * self.slabs, limits.multiprocessors)
            taps = ceil_div(ceil_div(rows * shape.written[2], 32), self.groups) * self.warps * shape.k
            found[rows, depth, ceil_div(tiles, depth)] = depth * (
                WAIT + shape.turns(rows) * 2 * PIXELS + taps * 2 * TAP
            )
        return min(found, key=lambda cut: found[cut])


def fits(shape: Shape, stride: int, precision: str, limits: Limits) -> bool:
    """Whether a convolution has so few channels, outputs and taps that a block has room for all of them, in both
    directions.
    """
    if stride > 1 or shape.k > WINDOW or shape.padding >= shape.k or min(shape.made) < 1:
        return False
    if shape.read[0] not in CHANNELS or shape.written[0] not in CHANNELS:
        return False
    kind, least, gradient = FORMATS[precision], shape.bands[0], Correlation(shape)
    largest = max(shape.shared(least, kind), shape.back.shared(1, kind), gradient.shared(least, kind))
    return largest + STATIC <= limits.shared_opt_in and gradient.fits(least)


class Direction:
    """y of a convolution of few channels, or its input's gradient, as the convolution that goes the other way."""

    def __init__(self, owner: OnDevice, shape: Shape, kind: Format) -> None:
        self.device, self.shape, self.kind = owner.device, shape, kind
        self.packed = owner.scratch((shape.packed(kind) // 4,), np.uint32)

    def launch(
        self, n: int, x: Array, won: Array | None, y: Array, bias: Array | None = None, rectify: bool = False, winner: Array | None = None,
        below: Array | None = None,
    ) -> Launch:  # fmt: skip
        """y[:n] from x[:n] and the packed weights, + bias, then the ReLU and the pool where they are wanted; 0 where
        below is not above 0.

        won : where x is what a 2 x 2 pool sends back, the pool's winners.
        """
        shape, kind, pooled = self.shape, self.kind, _word(self.shape.pooled)
        rows = shape.rows(n, kind, self.device.limits)
        name = f"convolve_narrow<{kind.name}, {width(shape.read[0])}, {width(shape.written[0])}, {pooled}, {_word(shape.pool)}>"
        return self.device.kernel(SOURCE, name).bind(
            (n, ceil_div(shape.made[0], rows)), 32 * shape.warps(rows), x, won, self.packed, bias, below, y, winner, *shape.read, *shape.written,
            shape.k, shape.padding, rows, int(rectify), *map(inverse, shape.across), shared=shape.shared(rows, kind),
        )  # fmt: skip


class WeightGradient:
    """dw and db of a convolution of few channels, for up to `capacity` images."""

    def __init__(self, owner: OnDevice, correlation: Correlation, capacity: int, kind: Format) -> None:
        self.device, self.kind, self.correlation = owner.device, kind, correlation
        (c, _, _), (o, _, _), most = (
            correlation.shape.read,
            correlation.shape.written,
            correlation.most(capacity, owner.device.limits),
        )
        self.parts = owner.scratch((most * o * columns(c, correlation.shape.k),))
        self.sums = owner.scratch((most, o))

    def launches(self, n: int, x: Array, dy: Array, won: Array | None, to: Gradients) -> Launches:
        """Fill dw and db; won: of a pool, its winners."""
        shape, kind, (rows, depth, blocks) = (
            self.correlation.shape,
            self.kind,
            self.correlation.cut(n, self.kind, self.device.limits),
        )
        c, (o, _, wide), k, bands = shape.read[0], shape.written, shape.k, ceil_div(shape.made[0], rows)
        name = f"correlate_narrow<{kind.name}, {k}, {width(o)}, {_word(shape.pool)}>"
        product = self.device.kernel(WEIGHTS, name).bind(
            (blocks, self.correlation.slabs), 32 * self.correlation.warps, x, dy, won, self.parts, self.sums, n, *shape.read, *shape.written,
            shape.padding, rows, depth, bands, *map(inverse, (wide + k - 1, wide, (wide + 1) // 2)), shared=self.correlation.shared(rows, kind),
        )  # fmt: skip
        return [product, finish(self.device, self.parts, blocks, self.sums, blocks, (o, c, k, 1), to)]


class NarrowConvolution:
    """y, dx and dw of a convolution of few channels for up to `capacity` images.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    shape : Shape
    capacity : int
    precision : str
        "fp32", whose factors are split into two halves; "bf16"; "fp16" or "tf32", whose factors are one half each.
    trains, both : bool
        Whether there is a way back, and whether dx is wanted on it.
    """

    def __init__(self, owner: OnDevice, shape: Shape, capacity: int, precision: str, trains: bool, both: bool) -> None:
        kind = FORMATS[precision]
        self.device, self.shape, self.kind = owner.device, shape, kind
        self.y = Direction(owner, shape, kind)
        self.dx = Direction(owner, shape.back, kind) if trains and both else None
        self.dw = WeightGradient(owner, Correlation(shape), capacity, kind) if trains else None

    def pack(self, w: Array) -> Launch:
        """Packs the weights, for y and dx: before them, once they have changed."""
        (c, _, _), (o, _, _), kernel = (
            self.shape.read,
            self.shape.written,
            self.device.kernel(PACK, f"pack_narrow<{self.kind.name}>"),
        )
        blocks, backward = (width(o), None) if self.dx is None else (width(o) + width(c), self.dx.packed)
        return kernel.bind(blocks, PACKING, w, o, c, self.shape.k**2, width(o), width(c), self.y.packed, backward)

    def forward(self, n: int, x: Array, bias: Array | None, y: Array, rectify: bool, winner: Array | None) -> Launches:
        """y[:n] from x[:n], + bias, then the ReLU where it is wanted, and the pool where there is one; winner: where
        the pool's largest was.
        """
        return [self.y.launch(n, x, None, y, bias, rectify, winner)]

    def backward(
        self, n: int, x: Array, dy: Array, winner: Array | None, to: Gradients, dx: Array | None, below: Array | None
    ) -> Launches:
        """dw and db from x[:n] and dy[:n], and dx[:n], 0 where below is not above 0; with a pool dy is the pool's
        gradient.
        """
        assert self.dw is not None
        found = self.dw.launches(n, x, dy, winner, to)
        if self.dx is not None and dx is not None:
            found.append(self.dx.launch(n, dy, winner, dx, below=below))
        return found


def _word(yes: bool) -> str:
    return "true" if yes else "false"
