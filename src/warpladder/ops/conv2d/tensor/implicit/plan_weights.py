"""Plans of dw as an implicit GEMM: the rectangle, outputs, channels and warps of a block; and their costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from .....device import Limits
from ....cost.launch import blocks_by_shared, blocks_each
from ....cost.plans import CostProblem
from ....engine.kernels import ceil_div
from ..formats import FactorFormat
from .plan import ImplicitShape, Rectangle, first_that_fit, halves, rectangles, work

#: As in plan.py, for these kernels; FEW: for a patch's numbers; ADDED: cycles for a thousand numbers of partials.
BLOCK, WAIT, MMA, BUSY, BRING, HALVES, BYTES, OUT, FEW, ADDED = 120, 115, 3.6, 12, 0.9, 1.6, 33, 3.3, 1.9, 3.5


class CorrelateTile(NamedTuple):
    """Tile of dw: the rectangle of a step, outputs, channels and rows of taps of a block, and its warps.

    parts, depth : split-K parts, and rectangles of each.
    """

    images: int
    rows: int
    columns: int
    outputs: int
    channels: int
    upon: int
    across: int
    turns: int
    tap_rows: int
    depth: int
    parts: int

    @property
    def at(self) -> Rectangle:
        return Rectangle(self.images, self.rows, self.columns)

    @property
    def warps(self) -> int:
        return self.upon * self.across * self.turns


@dataclass(frozen=True)
class ImplicitCorrelate(CostProblem[CorrelateTile]):
    """Cost problem of dw of n images by `correlate_implicit`. shape: of y."""

    n: int
    shape: ImplicitShape
    kind: FactorFormat
    limits: Limits

    @property
    def numbers(self) -> int:
        """float32 numbers in one split-K partial of dw."""
        (c, *_), o = self.shape.read, self.shape.written[0]
        return o * self.shape.window.k**2 * ceil_div(c, 4) * 4

    def partials(self, plan: CorrelateTile) -> int:
        return plan.parts * self.numbers

    def items(self, channels: int, tap_rows: int) -> int:
        """Sixteens of columns (tap, channels) of a block."""
        return (1 if self.shape.few else tap_rows * self.shape.window.k) * channels // 16

    def blocks(self, outputs: int, channels: int, tap_rows: int) -> int:
        """Number of blocks for one part."""
        return ceil_div(self.shape.written[0], outputs) * self.across(channels, tap_rows)

    def across(self, channels: int, tap_rows: int) -> int:
        """Number of blocks that share outputs: their channels and rows of taps differ."""
        boxes = 1 if self.shape.few else ceil_div(self.shape.window.k, tap_rows)
        return ceil_div(self.shape.terms, channels) * boxes

    def brought(self, at: Rectangle, tap_rows: int) -> int:
        """Number of pixels of x in shared memory for a rectangle of dy."""
        return self.shape.brought(at, ceil_div(at.pixels, 32) * 32, tap_rows)

    def plans(self) -> Iterator[CorrelateTile]:
        """Plans with all taps of a channel in a block, or with the most rows of taps that fit."""
        return first_that_fit(partial(self._plans, rows) for rows in halves(self.shape.window.k))

    def _plans(self, tap_rows: int) -> Iterator[CorrelateTile]:
        shape = self.shape
        step = 2 if shape.pool else 1
        widest = min(64, ceil_div(shape.written[0], 16) * 16)
        terms = min(32, ceil_div(shape.terms, 16) * 16)
        seen = set()
        for most in (32, 64, 128, 256):
            for at in rectangles(self.n, shape.made, most, step):
                if at in seen:
                    continue
                seen.add(at)
                pieces = shape.pieces(self.n, at)
                for outputs in {16, min(32, widest), widest} & {16, 32, 64}:
                    for channels in {16, terms}:
                        yield from self._tiles(at, pieces, (outputs, channels, tap_rows))

    def _tiles(self, at: Rectangle, pieces: int, block: tuple[int, int, int]) -> Iterator[CorrelateTile]:
        outputs, channels, tap_rows = block
        items, across_blocks = self.items(channels, tap_rows), self.blocks(*block)
        for upon in (1, 2):
            if outputs % (16 * upon) or outputs // upon > 32:
                continue
            for across in range(1, min(items, 12) + 1):
                each = ceil_div(items, across)
                if each * (outputs // upon // 16) > 8 or ceil_div(items, each) != across:
                    continue
                for turns in (1, 2, 3, 4):
                    if upon * across * turns > 12 or 32 * (turns - 1) >= at.pixels:
                        continue
                    for rounds in (1, 2):
                        parts = max(1, rounds * self.limits.multiprocessors // across_blocks)
                        depth = ceil_div(pieces, parts)
                        warps = upon, across, turns
                        tile = CorrelateTile(*at, outputs, channels, *warps, tap_rows, depth, ceil_div(pieces, depth))
                        if self.fits(tile):
                            yield tile

    def turns(self, tile: CorrelateTile) -> tuple[int, int]:
        """Turns in which the warps bring pixels of x, and of dy."""
        pixels = ceil_div(tile.at.pixels, 32) * 32
        x = ceil_div(self.brought(tile.at, tile.tap_rows), 256 // tile.channels)
        y = tile.at.pixels // 4 if self.shape.pool else pixels
        return ceil_div(x, tile.warps), ceil_div(ceil_div(y, 256 // tile.outputs), tile.warps)

    def fits(self, tile: CorrelateTile) -> bool:
        """True if shared memory holds the tiles, and registers all that its threads bring."""
        each, mt = ceil_div(self.items(tile.channels, tile.tap_rows), tile.across), tile.outputs // tile.upon // 16
        # of large windows the models of small ones say too little; warps share four files of registers
        small, files = self.shape.few or self.shape.window.k <= 5, ceil_div(tile.warps, 4)
        others, most = (
            (84 if self.shape.few else 72, 65536 // (32 * tile.warps)) if small else (112, 16384 // 32 // files)
        )
        registers = 8 * (sum(self.turns(tile)) + each * mt) + 8 * mt * (self.kind.bytes + 1) + others
        if registers > min(255, most):
            return False
        return self.shared(tile) <= self.limits.shared_opt_in - 4096

    def shared(self, tile: CorrelateTile) -> int:
        """Bytes of shared memory of a block: its tiles, or the sums of all warps at the end."""
        pixels = ceil_div(tile.at.pixels, 32) * 32
        x = self.brought(tile.at, tile.tap_rows) * (tile.channels * self.kind.bytes + 16)
        staged = x + pixels * (tile.outputs * self.kind.bytes + 16)
        return max(staged, 4 * tile.turns * tile.outputs * (16 * self.items(tile.channels, tile.tap_rows) + 4))

    def cycles(self, plan: CorrelateTile) -> float:
        shape, kind, limits, pixels = self.shape, self.kind, self.limits, ceil_div(plan.at.pixels, 32) * 32
        dy = plan.at.pixels // 2 if shape.pool else pixels
        numbers = self.brought(plan.at, plan.tap_rows) * plan.channels // 8 + dy * plan.outputs // 8
        of_block = plan.outputs, plan.channels, plan.tap_rows
        items = ceil_div(self.items(*of_block[1:]), plan.across) * plan.across
        steps = ceil_div(ceil_div(plan.at.pixels, 32), plan.turns) * plan.turns
        products = steps * 4 * (plan.outputs // 16) * items
        each = blocks_each(plan.parts * self.blocks(*of_block), limits)
        by_shared = blocks_by_shared(self.shared(plan), limits.shared_per_multiprocessor)
        resident = max(1, min(16 // plan.warps, by_shared))
        idle = max(1.0, BUSY / (plan.warps * min(each, resident)))
        multiplying = products * MMA * work(kind, 0.4) * idle
        bring = BRING * (FEW if shape.few else 1) * (HALVES if kind.has_scales else 1)
        bringing = numbers * (bring * idle + 32 / BYTES)
        out = plan.outputs * 16 * self.items(*of_block[1:]) / OUT
        waiting = ceil_div(each, resident) * (BLOCK + WAIT * plan.depth)
        return waiting + each * (plan.depth * (multiplying + bringing) + out) + ADDED * self.partials(plan) / 1000
