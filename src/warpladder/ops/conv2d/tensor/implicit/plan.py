"""Plans of y and dx as implicit GEMMs: rectangle, outputs and warps of a block, planes of a stage; and their costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple, TypeVar

from .....device import Limits
from ....cost.launch import blocks_by_shared, blocks_each
from ....cost.plans import CostProblem
from ....engine.kernels import ceil_div
from ...problem import ConvWindow, Image
from ..formats import FactorFormat

T = TypeVar("T")

#: As in implicit.cu: channels of a plane, most turns in which threads hold a stage's pixels, threads of a block.
PLANE, TURNS, THREADS = 32, 6, 256
#: Below so many channels the terms of a patch are (channel, tap), if there are at most so many.
FEW, TERMS = 8, 256
#: Cycles, fitted to 180 timed plans (docs/notes/tensor-conv2d.md): of a block, of a stage's wait and of loads that are
#: on their way together; of a multiprocessor for 16 x 8 sums of a k16 step with BUSY warps, and for eight numbers that
#: a lane brings, HALVES times as many where they have scales; bytes and written numbers a cycle.
BLOCK, WAIT, LOADS, MMA, BUSY, BRING, HALVES, BYTES, OUT = 100, 90, 1700, 2.6, 8, 2.4, 1.4, 300, 4.3


def plane(channels: int) -> int:
    """Number of channels of a plane: 16 for at most 16, else 32."""
    return 16 if channels <= 16 else PLANE


def row_bytes(channels: int, kind: FactorFormat) -> int:
    """Bytes of a row of a plane in shared memory: an odd number of 16 bytes."""
    return plane(channels) * kind.bytes + 16


def nearest(window: ConvWindow) -> int:
    """Least distance of a row of the gradient from the row of its class (implicit.cuh)."""
    k, s, p = window
    return min((b + p) // s - max(ceil_div(max(k - (b + p) % s, 0), s), 1) + 1 for b in range(s))


class Rectangle(NamedTuple):
    """Written pixels of a block."""

    images: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        return self.images * self.rows * self.columns


@dataclass(frozen=True)
class ImplicitShape:
    """Shape of one direction of a convolution, which is compiled into its kernel.

    read, written : (channels, rows, columns) of the image that is read, and of the one that is written, before a pool.
    window : of the convolution; if `back`, of the one from `written` to `read`.
    back : True for dx, which reads the gradient of y.
    pool : True if a 2 x 2 pool follows.
    pooled : True if the image that is read is the gradient of a 2 x 2 pool.
    """

    read: Image
    written: Image
    window: ConvWindow
    back: bool = False
    pool: bool = False
    pooled: bool = False

    @property
    def reversed(self) -> ImplicitShape:
        """Shape of the pass that computes dx: from dy to the gradient by the image that is read."""
        return ImplicitShape(self.written, self.read, self.window, True, pooled=self.pool)

    @property
    def few(self) -> bool:
        return not self.back and self.read[0] < FEW and self.read[0] * self.window.k**2 <= TERMS

    @property
    def terms(self) -> int:
        """Number of channels of all planes."""
        return self.read[0] * (self.window.k**2 if self.few else 1)

    @property
    def taps(self) -> int:
        return 1 if self.few else self.window.k**2

    @property
    def planes(self) -> int:
        return ceil_div(self.terms, plane(self.terms))

    @property
    def classes(self) -> int:
        return self.window.stride**2 if self.back else 1

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns of pixels that are cut into rectangles: of one class, or of whole windows of a pool."""
        _, high, wide = self.written
        step = self.window.stride if self.back else 1
        return (high // 2 * 2, wide // 2 * 2) if self.pool else (ceil_div(high, step), ceil_div(wide, step))

    def pieces(self, n: int, at: Rectangle) -> int:
        """Number of rectangles that cover n images."""
        high, wide = self.made
        return ceil_div(n, at.images) * ceil_div(high, at.rows) * ceil_div(wide, at.columns)

    def brought(self, at: Rectangle, pixels: int, tap_rows: int | None = None) -> int:
        """Rows of a plane: pixels of the halo of `tap_rows` rows of taps, None for all; or `pixels` patches."""
        k, s, p = self.window
        if self.few:
            return pixels
        if self.back:
            low, far = nearest(self.window), (s - 1 + p) // s
            return at.images * (at.rows + far - low) * (at.columns + far - low)
        return at.images * ((at.rows - 1) * s + (tap_rows or k)) * ceil_div((at.columns - 1) * s + k, s) * s

    def items(self, at: Rectangle, pixels: int) -> int:
        """Number of pixels, or windows of a pool's gradient, that lanes bring of a plane."""
        if not self.pooled:
            return self.brought(at, pixels)
        reach = (self.window.stride - 1 + self.window.padding) // self.window.stride - nearest(self.window)
        return at.images * ((at.rows + reach) // 2 + 1) * ((at.columns + reach) // 2 + 1)

    def packed(self, bn: int, kind: FactorFormat) -> int:
        """Bytes of the packed weights and their inverse scales."""
        outputs = ceil_div(self.written[0], bn) * bn
        return outputs * (self.planes * self.taps * row_bytes(self.terms, kind) + 4)


class ImplicitTile(NamedTuple):
    """Tile of a block: its rectangle, outputs, warps down, across and deep, 16 pixels of each, planes of a stage, and
    rows of taps whose weights are there at a time.
    """

    images: int
    rows: int
    columns: int
    bn: int
    upon: int
    across: int
    deep: int
    mt: int
    together: int
    tap_rows: int

    @property
    def at(self) -> Rectangle:
        return Rectangle(self.images, self.rows, self.columns)

    @property
    def pixels(self) -> int:
        return 16 * self.upon * self.mt

    @property
    def warps(self) -> int:
        return self.upon * self.across * self.deep


def rectangles(n: int, made: tuple[int, int], most: int, step: int) -> Iterator[Rectangle]:
    """Rectangles of at most `most` pixels that cover n images; rows and columns are multiples of step."""
    high, wide = made
    for pieces in range(1, ceil_div(wide, step) + 1):
        columns = ceil_div(ceil_div(wide, pieces), step) * step
        if columns > most or (pieces > 1 and columns < min(16, wide)):
            continue
        for bands in range(1, ceil_div(high, step) + 1):
            rows = ceil_div(ceil_div(high, bands), step) * step
            if rows * columns > most:
                continue
            whole = rows >= high and columns >= wide
            for images in {min(n, count) for count in range(1, most // (rows * columns) + 1)} if whole else (1,):
                yield Rectangle(images, rows, columns)
            break


@dataclass(frozen=True)
class ImplicitProblem(CostProblem[ImplicitTile]):
    """Cost problem of y or dx of n images by `convolve_implicit`."""

    n: int
    shape: ImplicitShape
    kind: FactorFormat
    limits: Limits
    bn: int | None = None

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Possible outputs of a block."""
        if self.bn is not None:
            return (self.bn,)
        least = ceil_div(self.shape.written[0], 16) * 16
        return tuple(width for width in (16, 32, 64, 128) if width <= least or width == 16)

    def plans(self) -> Iterator[ImplicitTile]:
        """Plans with the weights of all taps at a time, or of the most rows of taps that fit; with four warps and more,
        or with sixteen where four cannot hold the pixels that they bring.
        """
        boxes = [rows for rows in halves(self.shape.window.k) if rows == self.shape.window.k or not self.shape.few]
        return first_that_fit(partial(self._plans, rows, warps) for rows in boxes for warps in (4, 16))

    def _plans(self, tap_rows: int, warps: int) -> Iterator[ImplicitTile]:
        step, seen = 2 if self.shape.pool else 1, set()
        for most in (16, 32, 64, 128, 256):
            for at in rectangles(self.n, self.shape.made, most, step):
                if at in seen:
                    continue
                seen.add(at)
                for bn in self.widths:
                    yield from self._tiles(at, bn, tap_rows, warps)

    def _tiles(self, at: Rectangle, bn: int, tap_rows: int, warps: int) -> Iterator[ImplicitTile]:
        sixteens = ceil_div(at.pixels, 16)
        for across in (1, 2, 4):
            if bn % (16 * across) or bn // across > 64:
                continue
            for mt in (2, 1):
                # at least so many warps, which bring pixels even if there are too few to multiply
                upon = max(ceil_div(sixteens, mt), warps // across)
                if upon * across > 16 or mt * bn // across > 64:
                    continue
                for together in {self.shape.planes, *(1, 2, 4)}:
                    for deep in (1, 2, 4) if self.shape.back else (1,):
                        tile = ImplicitTile(*at, bn, upon, across, deep, mt, together, tap_rows)
                        if deep <= together <= self.shape.planes and tile.warps <= 16 and self.fits(tile):
                            yield tile

    def fits(self, tile: ImplicitTile) -> bool:
        """True if shared memory and registers hold a stage, or two."""
        stages = ceil_div(self.shape.planes, tile.together)
        held = stages == 1 or (self.turns(tile) <= TURNS and not self.shape.few)
        return held and self.shared(tile) <= self.limits.shared_opt_in - 8 * tile.bn

    def boxes(self, tile: ImplicitTile) -> int:
        """Number of boxes of taps whose weights come one after the other."""
        return 1 if self.shape.few else ceil_div(self.shape.window.k, tile.tap_rows)

    def turns(self, tile: ImplicitTile) -> int:
        """Number of turns in which the warps bring a stage's pixels."""
        groups = ceil_div(self.shape.items(tile.at, tile.pixels), 256 // plane(self.shape.terms))
        return ceil_div(tile.together * groups, tile.warps)

    def shared(self, tile: ImplicitTile) -> int:
        """Bytes of shared memory of a block."""
        shape = self.shape
        halves = min(2, ceil_div(shape.planes, tile.together))
        buffers, taps = (halves, shape.taps) if self.boxes(tile) == 1 else (2, tile.tap_rows * shape.window.k)
        rows = buffers * taps * tile.bn + halves * shape.brought(tile.at, tile.pixels)
        staged = tile.together * rows * row_bytes(shape.terms, self.kind)
        sums = 4 * tile.deep * tile.bn * (ceil_div(tile.at.pixels * shape.classes, 16) * 16 + 4)
        return staged + sums if shape.classes > 1 else max(staged, sums)

    def blocks(self, tile: ImplicitTile) -> tuple[int, int]:
        """Rectangles, and tiles of outputs."""
        return self.shape.pieces(self.n, tile.at), ceil_div(self.shape.written[0], tile.bn)

    def cycles(self, plan: ImplicitTile) -> float:
        shape, kind, limits = self.shape, self.kind, self.limits
        stages = ceil_div(shape.planes, plan.together)
        boxes = self.boxes(plan)
        again, copied = (shape.classes if many > 1 else 1 for many in (stages, stages * boxes))
        channels = shape.planes * plane(shape.terms)
        products = plan.upon * plan.mt * plan.bn // 8 * shape.taps * channels // 16
        numbers = shape.items(plan.at, plan.pixels) * channels // 8 * (2 if shape.pooled else 1)
        weights = copied * shape.planes * shape.taps * plan.bn * row_bytes(shape.terms, kind)
        pieces, tiles = self.blocks(plan)
        each = blocks_each(pieces * tiles, limits)
        resident = max(1, min(32 // plan.warps, blocks_by_shared(self.shared(plan), limits.shared_per_multiprocessor)))
        idle = max(1.0, BUSY / (plan.warps * min(each, resident)))
        multiplying = products * MMA * work(kind, 0.22) * idle
        bringing = (
            numbers * again * BRING * (HALVES if kind.has_scales else 1) * idle + (weights + 32 * numbers) / BYTES
        )
        waiting = BLOCK + WAIT * stages * boxes * copied + LOADS * ceil_div(self.turns(plan), TURNS)
        out = plan.bn * plan.at.pixels * shape.classes / OUT
        return ceil_div(each, resident) * waiting + each * (multiplying + bringing + out)


def halves(k: int) -> list[int]:
    """k, half of it rounded up, and so on to 1."""
    return [k] if k == 1 else [k, *halves(ceil_div(k, 2))]


def first_that_fit(ways: Iterable[Callable[[], Iterator[T]]]) -> Iterator[T]:
    """Plans of the first of several ways that has any."""
    for way in ways:
        plans = way()
        for first in plans:
            return chain((first,), plans)
    return iter(())


def work(kind: FactorFormat, other: float) -> float:
    """Time of a product next to one in bf16, where all else takes `other` of that."""
    return (kind.work + other) / (1 + other)
