"""Convolutions of few channels and outputs on tensor cores, as launches: kernels that keep all channels of some rows of an image, and all weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...device import Array, Launch, Limits
from ..kernels import Launches, OnDevice, ceil_div
from .gradients import columns, finish
from .products import Image
from .tensor_products import FORMATS as GENERAL
from .tensor_products import Format

SOURCE = Path(__file__).with_name("narrow.cu")
PACK = Path(__file__).with_name("narrow_pack.cu")
WEIGHTS = Path(__file__).with_name("narrow_weights.cu")

#: Channels, and outputs, of a layer that these kernels take; rows and columns of its window at most.
CHANNELS, WINDOW = (8, 16, 24, 32), 5

#: As in narrow.cu: threads of a block at most, pixels and outputs of a warp's sums; and threads of a block of narrow_pack.cu.
THREADS, TILE, OUTPUTS, PACKING = 384, 32, 16, 128

#: Cycles of a multiprocessor to bring eight channels of a pixel, and for a tap of 16 channels of a warp's sums; cycles that a block waits for memory: assumed.
BRING, TAP, WAIT = 1.0, 30.0, 2500.0

#: By the precision that products are asked for in: tf32's numbers have the 11 bits of a half, so they are halves with a scale, at twice tf32's rate.
FORMATS = GENERAL | {"tf32": GENERAL["fp16"]}


def width(channels: int) -> int:
    """Channels as the kernels are compiled for them: 16 or 32, zeros beyond the last one."""
    return ceil_div(channels, 16) * 16


def row_bytes(channels: int, kind: Format) -> int:
    """Bytes of shared memory of a pixel's channels, or of an output's at a tap: an odd number of 16."""
    return width(channels) * kind.bytes + 16


@dataclass(frozen=True)
class Shape:
    """Which image a convolution of stride 1 reads, which it writes, before a pool, and by which window.

    read, written : (channels, rows, columns).
    pool : whether a 2 x 2 pool follows.
    """

    read: Image
    written: Image
    k: int
    padding: int
    pool: bool = False

    @property
    def back(self) -> Shape:
        """The convolution that goes the other way, by which the input's gradient is computed."""
        return Shape(self.written, self.read, self.k, self.k - 1 - self.padding)

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns that are computed: with a pool those that make whole windows."""
        _, high, wide = self.written
        return (high // 2 * 2, wide // 2 * 2) if self.pool else (high, wide)

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

    def rows(self, n: int, kind: Format, limits: Limits) -> int:
        """Rows of a block: those with which the multiprocessor that has most to do is done first, by the model; 0 where not one fits shared memory."""
        step, high, steps = (2 if self.pool else 1), self.made[0], width(self.read[0]) // 16
        found = {}
        for rows in range(step, high + 1, step):
            if self.shared(rows, kind) > limits.shared_opt_in:
                break
            each = ceil_div(n * ceil_div(high, rows), limits.multiprocessors)
            resident = min(each, limits.shared_per_multiprocessor // (self.shared(rows, kind) + 1024))
            work = self.halo(rows) * 2 * steps * BRING + self.items(rows) * self.k**2 * steps * TAP
            found[rows] = each * work + ceil_div(each, max(1, resident)) * WAIT
        return min(found, key=lambda rows: found[rows], default=0)


@dataclass(frozen=True)
class Correlation:
    """The weight gradient of a convolution; pooled: whether dy is what a 2 x 2 pool sends back."""

    shape: Shape
    pooled: bool

    @property
    def groups(self) -> int:
        """Sets of a block's warps that share its pixels."""
        return THREADS // 32 // self._units

    @property
    def warps(self) -> int:
        """Of a block."""
        return self.groups * self._units

    @property
    def _units(self) -> int:
        """Warps that have all taps together, each up to three of a row."""
        return ceil_div(self.shape.k, 3) * self.shape.k

    @property
    def high(self) -> int:
        """Rows of dy that are not zero throughout."""
        high = self.shape.written[1]
        return high // 2 * 2 if self.pooled else high

    def fits(self, rows: int) -> bool:
        """Whether a block keeps so many rows in its registers until their scales are known: 32 pixels a warp, or of dy eight windows; sixteen of few outputs."""
        o, _, wide = self.shape.written
        windows = ceil_div(rows, 2) * ceil_div(wide, 2) * width(o) // 8
        return self.shape.halo(rows) <= 32 * self.warps and (not self.pooled or windows <= 32 * self.warps)

    def shared(self, rows: int, kind: Format) -> int:
        """Bytes of shared memory of a block of `correlate_narrow`: of its tiles, or of all groups' sums in the end."""
        o, _, wide = self.shape.written
        pixels = ceil_div(rows * wide, 32) * 32
        tiles = self.shape.halo(rows) * row_bytes(16, kind) + pixels * row_bytes(o, kind)
        return max(tiles, 4 * self.groups * width(o) * self.shape.k**2 * 16)

    def cut(self, n: int, kind: Format, limits: Limits) -> tuple[int, int, int]:
        """Rows of a tile, tiles of a block, and blocks: those with which the multiprocessor that has most to do is done first, by the model."""
        step, shape, found = (2 if self.pooled else 1), self.shape, {}
        for rows in range(step, self.high + 1, step):
            if not self.fits(rows) or self.shared(rows, kind) > limits.shared_opt_in:
                break
            tiles = n * ceil_div(self.high, rows)
            depth = ceil_div(tiles * ceil_div(shape.read[0], 16), limits.multiprocessors)
            chunks = ceil_div(ceil_div(rows * shape.written[2], 32), self.groups) * self.warps * shape.k
            found[rows, depth, ceil_div(tiles, depth)] = depth * (WAIT + shape.halo(rows) * 4 * BRING + chunks * TAP)
        return min(found, key=lambda cut: found[cut])


def fits(read: Image, written: Image, window: tuple[int, int, int], precision: str, enlargement: int, limits: Limits) -> bool:
    """Whether a convolution has so few channels, outputs and taps that a block has room for all of them, in both directions.

    read, written : (channels, rows, columns), before a pool.
    window : kernel size, stride and padding.
    """
    (k, stride, padding), kind = window, FORMATS[precision]
    if enlargement > 1 or stride > 1 or k > WINDOW or padding >= k or not all(image[0] in CHANNELS for image in (read, written)):
        return False
    shape = Shape(read, written, k, padding)
    gradient = Correlation(shape, True)
    return max(shape.shared(2, kind), shape.back.shared(2, kind), gradient.shared(2, kind)) <= limits.shared_opt_in and gradient.fits(2)


class NarrowConvolution:
    """One direction of a convolution of few channels.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    shape : Shape
    precision : str
        "fp32", whose factors are split into two halves; "bf16"; "fp16" or "tf32", whose factors are one half each.
    """

    def __init__(self, owner: OnDevice, shape: Shape, precision: str) -> None:
        self.device, self.shape, self.kind = owner.device, shape, FORMATS[precision]
        self.packed = owner.scratch((shape.packed(self.kind) // 4,), np.uint32)

    def launches(
        self, n: int, x: Array, bias: Array | None, y: Array, rectify: bool = False, winner: Array | None = None, below: Array | None = None,
        won: Array | None = None,
    ) -> Launches:  # fmt: skip
        """y[:n] from x[:n] and the packed weights, + bias, then the ReLU and the pool where they are wanted; 0 where below is not above 0.

        won : where x is the gradient that a 2 x 2 pool sends back, the pool's winners.
        """
        shape, kind = self.shape, self.kind
        rows, pooled, windows = shape.rows(n, kind, self.device.limits), *("true" if yes else "false" for yes in (won is not None, shape.pool))
        kernel = self.device.kernel(SOURCE, f"convolve_narrow<{kind.name}, {width(shape.read[0])}, {width(shape.written[0])}, {pooled}, {windows}>")
        threads = 32 * max(4, min(THREADS // 32, shape.items(rows)))
        return [
            kernel.bind(
                n * ceil_div(shape.made[0], rows), threads, x, won, self.packed, bias, below, y, winner, *shape.read, *shape.written, shape.k,
                shape.padding, rows, int(rectify), shared=shape.shared(rows, kind),
            )
        ]  # fmt: skip


class NarrowWeightGradient:
    """dw and db of a convolution of few channels, for up to `capacity` images; pooled: whether dy is what a 2 x 2 pool sends back."""

    def __init__(self, owner: OnDevice, shape: Shape, pooled: bool, capacity: int, precision: str) -> None:
        self.device, self.kind, self.correlation = owner.device, FORMATS[precision], Correlation(shape, pooled)
        most = max(self._cut(n)[2] for n in range(1, capacity + 1))
        self.parts = owner.scratch((most * shape.written[0] * columns(shape.read[0], shape.k),))
        self.sums = owner.scratch((most, shape.written[0]))

    def _cut(self, n: int) -> tuple[int, int, int]:
        return self.correlation.cut(n, self.kind, self.device.limits)

    def launches(self, n: int, x: Array, dy: Array, won: Array | None, dw: Array, db: Array) -> Launches:
        """Fill dw and db; won: of a pool, its winners."""
        shape, (rows, depth, blocks) = self.correlation.shape, self._cut(n)
        (c, _, _), (o, _, _), pooled = shape.read, shape.written, "false" if won is None else "true"
        kernel = self.device.kernel(WEIGHTS, f"correlate_narrow<{self.kind.name}, {shape.k}, {width(o)}, {pooled}>")
        product = kernel.bind(
            (blocks, ceil_div(c, 16)), 32 * self.correlation.warps, x, dy, won, self.parts, self.sums, n, *shape.read, *shape.written, shape.padding, rows, depth,
            shared=self.correlation.shared(rows, self.kind),
        )  # fmt: skip
        return [product, finish(self.device, self.parts, dw, blocks, self.sums, db, blocks, (o, c, shape.k, 1))]


def pack(w: Array, forward: NarrowConvolution, backward: NarrowConvolution | None) -> Launch:
    """Packs a layer's weights: for its forward pass, and for its input gradient where there is one."""
    (c, _, _), (o, _, _), kernel = forward.shape.read, forward.shape.written, forward.device.kernel(PACK, f"pack_narrow<{forward.kind.name}>")
    blocks = width(o) + (width(c) if backward is not None else 0)
    return kernel.bind(
        blocks, PACKING, w, o, c, forward.shape.k**2, width(o), width(c), forward.packed, None if backward is None else backward.packed
    )
