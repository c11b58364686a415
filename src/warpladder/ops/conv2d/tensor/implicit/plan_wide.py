"""Plans of y and dx by warpgroup products: rectangle, outputs and warpgroups of a block, planes of a stage; and their
costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .....device import Limits
from ....cost.launch import blocks_by_shared, blocks_each
from ....cost.plans import CostProblem
from ....engine.kernels import ceil_div
from ..formats import FactorFormat
from .plan import ImplicitShape, Rectangle, halves, nearest, plane, rectangles

#: As in implicit_wide.cu: channels of a plane, and of 16 bytes; rows of a product.
PLANE, EIGHT, ROWS = 32, 8, 64
#: Outputs of a block; those of a warpgroup are some of them too.
WIDTHS = (32, 64, 128)
#: By warpgroups of a block: most registers of a thread for sums and parts, and most turns in which they hold a stage.
SUMS, TURNS = {1: 128, 2: 128, 3: 64, 4: 64}, {1: 5, 2: 5, 3: 5, 4: 3}
#: Cycles, fitted to 314 timed plans (docs/notes/tensor-conv2d.md): of a launch and of a stage's wait; of eight numbers
#: that a lane brings, HALVES times as many where they have scales; of a product, next to the tensor cores' own; where
#: sums leave them, of a tap's wait and of 64 sums. Bytes of weights, and written numbers, a cycle.
LAUNCH, WAIT, BRING, HALVES, MULTIPLY, TAP, LEAVE, BYTES, OUT = 4430, 960, 1.69, 1.8, 1.11, 50, 1.58, 153, 3.23


class WideTile(NamedTuple):
    """Tile of a block: its rectangle, outputs, warpgroups down and across, 64 pixels of each, planes of a stage, and
    rows of taps whose weights are there at a time.
    """

    images: int
    rows: int
    columns: int
    bn: int
    upon: int
    across: int
    mt: int
    together: int
    tap_rows: int

    @property
    def at(self) -> Rectangle:
        return Rectangle(self.images, self.rows, self.columns)

    @property
    def warps(self) -> int:
        return 4 * self.upon * self.across

    @property
    def width(self) -> int:
        """Number of outputs of a warpgroup."""
        return self.bn // self.across


class FlatHalo(NamedTuple):
    """Pixels of a halo in memory, products of 64 from the first written pixel to the last, and the farthest tap."""

    pixels: int
    products: int
    far: int

    @classmethod
    def of(cls, shape: ImplicitShape, at: Rectangle) -> FlatHalo:
        k, s, p = shape.window
        step, reach = (1, (s - 1 + p) // s - nearest(shape.window)) if shape.back else (s, 0)
        down = at.rows + reach if shape.back else ceil_div((at.rows - 1) * s + k, step)
        part = at.columns + reach if shape.back else ceil_div((at.columns - 1) * s + k, step)
        parity = at.images * down * part
        span = (at.images - 1) * down * part + (at.rows - 1) * part + at.columns
        far = reach * (part + 1) if shape.back else (step * step - 1) * parity + (k - 1) // step * (part + 1)
        return cls(step * step * parity, ceil_div(span, ROWS), far)


@dataclass(frozen=True)
class WideProblem(CostProblem[WideTile]):
    """Cost problem of y or dx of n images by `convolve_wide`."""

    n: int
    shape: ImplicitShape
    kind: FactorFormat
    limits: Limits
    bn: int | None = None

    def plans(self) -> Iterator[WideTile]:
        """Plans with the weights of all taps at a time, or of some rows of taps; none for few channels."""
        if not self.shape.few and plane(self.shape.terms) == PLANE:
            for tap_rows in halves(self.shape.window.k):
                yield from self._plans(tap_rows)

    def _plans(self, tap_rows: int) -> Iterator[WideTile]:
        step, seen = 2 if self.shape.pool else 1, set()
        for most in (64, 128, 256, 512):
            for at in rectangles(self.n, self.shape.made, most, step):
                if at not in seen:
                    seen.add(at)
                    yield from self._tiles(at, tap_rows)

    def _tiles(self, at: Rectangle, tap_rows: int) -> Iterator[WideTile]:
        products, many = FlatHalo.of(self.shape, at).products, 2 if self.kind.has_scales else 4
        least = ceil_div(self.shape.written[0], WIDTHS[0]) * WIDTHS[0]
        for bn in WIDTHS if self.bn is None else (self.bn,):
            for across in (1, 2):
                for mt in (1, 2, 4)[:many]:
                    upon, width = ceil_div(products, mt), bn // across
                    groups, sums = upon * across, mt * width // 2 * (2 if self.kind.has_scales else 1)
                    if width not in WIDTHS or bn >= 2 * least or groups not in SUMS or sums > SUMS[groups]:
                        continue
                    for together in sorted({self.shape.planes, 1, 2}):
                        tile = WideTile(*at, bn, upon, across, mt, together, tap_rows)
                        if together <= self.shape.planes and self.fits(tile):
                            yield tile

    def fits(self, tile: WideTile) -> bool:
        """True if shared memory and registers hold a stage, or two."""
        stages = ceil_div(self.shape.planes, tile.together)
        held = stages == 1 or self.turns(tile) <= TURNS[tile.upon * tile.across]
        return held and self.shared(tile) <= self.limits.shared_opt_in - 8 * tile.bn

    def turns(self, tile: WideTile) -> int:
        """Number of turns in which the warps bring a stage's pixels."""
        return ceil_div(tile.together * ceil_div(self.items(tile), EIGHT), tile.warps)

    def items(self, tile: WideTile) -> int:
        """Number of pixels, or windows of a pool's gradient, that lanes bring of a plane."""
        count = FlatHalo.of(self.shape, tile.at).pixels
        return self.shape.items(tile.at, 0) if self.shape.pooled else count

    def shared(self, tile: WideTile) -> int:
        """Bytes of shared memory of a block."""
        shape, chunks = self.shape, PLANE // EIGHT * self.kind.copies
        stages, boxes = ceil_div(shape.planes, tile.together), ceil_div(shape.window.k, tile.tap_rows)
        halo = FlatHalo.of(shape, tile.at)
        space = max(halo.pixels, ROWS * tile.upon * tile.mt + halo.far)
        scales = ceil_div(space, 4) if self.kind.has_scales else 0
        weights = tile.together * tile.tap_rows * shape.window.k * chunks * tile.bn
        pixels = tile.together * (chunks * space + scales)
        staged = 16 * (min(2, stages * boxes) * weights + min(2, stages) * pixels)
        sums = 4 * tile.bn * (ceil_div(tile.at.pixels * shape.classes, 16) * 16 + 4)
        return staged + sums if shape.classes > 1 else max(staged, sums)

    def blocks(self, tile: WideTile) -> tuple[int, int]:
        """Rectangles, and tiles of outputs."""
        return self.shape.pieces(self.n, tile.at), ceil_div(self.shape.written[0], tile.bn)

    def cycles(self, plan: WideTile) -> float:
        shape, kind, limits = self.shape, self.kind, self.limits
        stages, boxes = ceil_div(shape.planes, plan.together), ceil_div(shape.window.k, plan.tap_rows)
        again, copied = (shape.classes if many > 1 else 1 for many in (stages, stages * boxes))
        taps = plan.mt * shape.taps * shape.planes  # of a warpgroup
        tap = 2 * kind.work * MULTIPLY * max(plan.width / 2, 16 + plan.width / 4)
        numbers = self.items(plan) * shape.planes * PLANE // EIGHT * (2 if shape.pooled else 1)
        weights = copied * shape.planes * shape.taps * plan.bn * PLANE * kind.bytes
        bringing = numbers * again * BRING * (HALVES if kind.has_scales else 1) + weights / BYTES
        pieces, tiles = self.blocks(plan)
        each = blocks_each(pieces * tiles, limits)
        resident = max(1, min(16 // plan.warps, blocks_by_shared(self.shared(plan), limits.shared_per_multiprocessor)))
        multiplying = taps * tap * plan.upon * plan.across
        if kind.has_scales:  # a warpgroup waits for each tap, while others multiply
            multiplying = max(multiplying, taps * (tap + TAP + plan.width / 2 * LEAVE) / min(each, resident))
        out = plan.bn * plan.at.pixels * shape.classes / OUT
        waiting = WAIT * stages * boxes * shape.classes
        return LAUNCH + ceil_div(each, resident) * waiting + each * (multiplying + bringing + out)
