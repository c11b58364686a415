"""Plans of the general kernels: the tile of pixels of a block, the taps of a stage, split-K; and their cost models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .....device import Limits
from ....cost.launch import MOST_PARTS, adding_partials, blocks_by_shared, blocks_each
from ....cost.plans import CostProblem, depths
from ....engine.kernels import ceil_div
from ...gradients import columns
from ...problem import ConvWindow, Image
from ...products import Geometry
from ..formats import FactorFormat

#: As in product.cu: terms of a stage, pixels and threads of a block, and panels of weights in shared memory.
DEPTH, PIXELS, THREADS, RING = 32, 128, 128, 3
#: As in weights.cu: outputs and channels of a block, its threads, its taps, and sums of a thread.
OUTPUTS, CHANNELS, WIDE_THREADS, TAPS, SUMS = 64, 32, 384, 9, 48
#: Outputs of a block of `convolve`, the widest first.
WIDTHS = (64, 32, 16)
#: Blocks of `convolve` that fit a multiprocessor by registers.
RESIDENT = 3
#: Cycles of the tensor cores for an mma of 16 bits, at 63 % of their peak (docs/tensor.md); least cycles of a stage and
#: of a panel, while a block waits; cycles to copy 32 numbers to shared memory: all but the first assumed.
MMA, STAGE, PANEL, BRING = 1.6, 1500, 250, 2.5


@dataclass(frozen=True)
class PixelTile:
    """Pixels of a block, images by rows by columns, and the taps of a stage: whole rows of taps, or part of a row."""

    images: int
    rows: int
    columns: int
    tap_rows: int
    tap_columns: int

    @property
    def pixels(self) -> int:
        return self.images * self.rows * self.columns

    def halo(self, stride: int) -> int:
        """Input pixels that are read for the tile, rounded up to a multiple of 16."""
        high, wide = (self.rows - 1) * stride + self.tap_rows, (self.columns - 1) * stride + self.tap_columns
        return ceil_div(self.images * high * wide, 16) * 16

    def tiles(self, n: int, high: int, wide: int) -> int:
        """Number of tiles that cover n images of high x wide pixels."""
        return ceil_div(n, self.images) * ceil_div(high, self.rows) * ceil_div(wide, self.columns)


def tiles(n: int, high: int, wide: int, windows: bool, boxes: tuple[tuple[int, int], ...]) -> Iterator[PixelTile]:
    """Tiles of at most PIXELS pixels that cover n images; with `windows`, tiles of whole 2 x 2 windows."""
    step = 2 if windows else 1
    high, wide, most = high // step, wide // step, PIXELS // step**2
    for pieces in range(1, wide + 1):
        across = ceil_div(wide, pieces)
        if across > most or (pieces > 1 and across * step < 4):
            continue
        down = ceil_div(high, ceil_div(high, min(high, most // across)))
        images = min(n, most // (down * across)) if (down, across) == (high, wide) else 1
        for box in boxes:
            yield PixelTile(images, step * down, step * across, *box)


@dataclass(frozen=True)
class GeneralPlan:
    """Tile, and the split of each sum into `parts` of `depth` stages; the last part may have fewer."""

    tile: PixelTile
    depth: int
    parts: int


@dataclass(frozen=True)
class ConvolveForm:
    """Template arguments of `convolve`, and the packing of its weights.

    few : True if a stage's terms are (channel, tap), not channels.
    bn : outputs of a block.
    taps : rows and columns of taps, in the phase with most.
    stages : stages of 32 channels or terms, for one box of taps.
    """

    few: bool
    bn: int
    taps: tuple[int, int]
    stages: int

    @classmethod
    def of(cls, geometry: Geometry) -> ConvolveForm:
        """Form for a geometry: the narrowest block that has all outputs, else the widest."""
        side = round(geometry.taps**0.5)
        bn = next((width for width in reversed(WIDTHS) if width >= geometry.columns), WIDTHS[0])
        terms = geometry.read[0] * (side * side if geometry.few else 1)
        return cls(geometry.few, bn, (side, side), ceil_div(terms, DEPTH))

    @property
    def panels(self) -> int:
        """Number of weight panels of one phase and one tile of outputs."""
        return self.stages if self.few else self.stages * self.taps[0] * self.taps[1]

    @property
    def boxes(self) -> tuple[tuple[int, int], ...]:
        """Possible (rows, columns) of the taps of a stage: all taps, a row, a part of a row, one tap."""
        rows, columns = self.taps
        every = (rows, columns), (1, columns), (1, min(8, columns)), (1, 1)
        return ((1, 1),) if self.few else tuple(dict.fromkeys(every))

    def panel_bytes(self, kind: FactorFormat) -> int:
        """Bytes of a panel of weights and its inverse scales."""
        return self.bn * (DEPTH * kind.bytes + (4 if kind.has_scales else 0))


class TileCost(NamedTuple):
    """Cost of a tile of a general kernel.

    stages, blocks : number of each, for whole sums.
    resident : blocks that fit a multiprocessor.
    alone, busy : cycles of a stage of a lone block, and cycles for which a stage occupies a multiprocessor.
    """

    stages: int
    blocks: int
    resident: int
    alone: float
    busy: float


class SplitProblem(CostProblem[GeneralPlan]):
    """Cost problem of a product whose sums may be split, with a cost for each tile."""

    limits: Limits

    @property
    @abstractmethod
    def costs(self) -> dict[PixelTile, TileCost]:
        """Cost of each tile that fits shared memory."""

    def plans(self) -> Iterator[GeneralPlan]:
        for tile, cost in self.costs.items():
            for depth in depths(cost.stages, range(1, min(cost.stages, MOST_PARTS) + 1)):
                yield GeneralPlan(tile, depth, ceil_div(cost.stages, depth))

    def rounds(self, plan: GeneralPlan) -> float:
        """Cycles of the blocks on the busiest multiprocessor, where resident blocks share the tensor cores."""
        cost = self.costs[plan.tile]
        each = blocks_each(cost.blocks * plan.parts, self.limits)
        together = min(each, cost.resident)
        step = max(cost.alone, together * cost.busy)
        return ceil_div(each, together) * (plan.depth * step + STAGE)


@dataclass(frozen=True)
class ConvolveProblem(SplitProblem):
    """Cost problem of y or dx of n images, by `convolve` of product.cu."""

    n: int
    geometry: Geometry
    kind: FactorFormat
    limits: Limits

    @cached_property
    def form(self) -> ConvolveForm:
        return ConvolveForm.of(self.geometry)

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of the largest phase of output pixels, which is cut into tiles."""
        geometry, (_, high, wide) = self.geometry, self.geometry.written
        if geometry.pool:
            return high // 2 * 2, wide // 2 * 2
        step = geometry.stride if geometry.transposed else 1
        return ceil_div(high, step), ceil_div(wide, step)

    @property
    def numbers(self) -> int:
        """float32 numbers in one split-K partial."""
        return self.geometry.classes * self.geometry.columns * self.geometry.pitch(self.n)

    def blocks(self, tile: PixelTile) -> int:
        """Number of blocks without split-K."""
        across = ceil_div(self.geometry.columns, self.form.bn) * self.geometry.classes
        return across * tile.tiles(self.n, *self.image)

    def shared(self, tile: PixelTile) -> int:
        """Bytes of shared memory of a block of `convolve`."""
        kind, form, geometry = self.kind, self.form, self.geometry
        pixels = ceil_div(tile.pixels, 16) * 16 if form.few else tile.halo(self._stride)
        table = 8 * geometry.read[0] * form.taps[0] * form.taps[1] if form.few else 4 * pixels
        staged = RING * form.panel_bytes(kind) + pixels * (DEPTH * kind.bytes + (4 if kind.has_scales else 0)) + table
        return max(staged, 4 * PIXELS * form.bn)  # sums take the place of what was multiplied

    @property
    def _stride(self) -> int:
        return 1 if self.geometry.transposed else self.geometry.stride

    @cached_property
    def costs(self) -> dict[PixelTile, TileCost]:
        form, limits, (rows, columns) = self.form, self.limits, self.form.taps
        steps = ceil_div(min(DEPTH, self.geometry.read[0] * (rows * columns if form.few else 1)), 16)
        panel = PIXELS // 16 * (form.bn // 8) * steps * self.kind.work * MMA
        found = {}
        for tile in tiles(self.n, *self.image, self.geometry.pool, form.boxes):
            shared = self.shared(tile)
            if shared > limits.shared_opt_in:
                continue
            count = 1 if form.few else ceil_div(rows, tile.tap_rows) * ceil_div(columns, tile.tap_columns)
            taps = 1 if form.few else min(tile.tap_rows * tile.tap_columns, rows * columns)
            halo = tile.pixels * 3 if form.few else tile.halo(self._stride)
            resident = min(RESIDENT, max(1, blocks_by_shared(shared, limits.shared_per_multiprocessor)))
            alone, busy = STAGE + taps * max(PANEL, panel), halo * DEPTH / 32 * BRING + taps * panel
            found[tile] = TileCost(form.stages * count, self.blocks(tile), resident, alone, busy)
        return found

    def partials(self, plan: GeneralPlan) -> int:
        return plan.parts * self.numbers if plan.parts > 1 else 0

    def cycles(self, plan: GeneralPlan) -> float:
        adding = adding_partials(plan.parts, self.numbers) if plan.parts > 1 else 0.0
        return self.rounds(plan) + adding


@dataclass(frozen=True)
class CorrelateProblem(SplitProblem):
    """Cost problem of dw of n images, by `correlate` of weights.cu. A plan's depth counts tiles of pixels.

    dw[o, c, tap] is the sum over the pixels of n images of written[o] times the pixel of read[c] under the tap.
    """

    n: int
    read: Image
    written: Image
    window: ConvWindow
    kind: FactorFormat
    limits: Limits

    @property
    def few(self) -> bool:
        """True if the product's columns are (channel, tap), for images with too few channels to fill a block."""
        return self.read[0] < 8 and self.read[0] * self.window.k**2 <= 512

    @property
    def numbers(self) -> int:
        """float32 numbers in one split-K partial of dw."""
        return self.written[0] * columns(self.read[0], self.window.k)

    def blocks(self, tile: PixelTile) -> int:
        """Number of blocks for one part of the pixels."""
        k, channels = self.window.k, self.read[0]
        boxes = 1 if self.few else ceil_div(k, tile.tap_rows) * ceil_div(k, tile.tap_columns)
        across = ceil_div(channels * (k**2 if self.few else 1), CHANNELS)
        return ceil_div(self.written[0], OUTPUTS) * across * boxes

    def shared(self, tile: PixelTile) -> int:
        """Bytes of shared memory of a block of `correlate`."""
        pixels = ceil_div(tile.pixels, 16) * 16 if self.few else tile.halo(self.window.stride)
        places = 3 * PIXELS + 2 * CHANNELS if self.few else pixels
        numbers = pixels * CHANNELS + PIXELS * OUTPUTS
        staged = self.kind.bytes * numbers + 4 * (CHANNELS + OUTPUTS + 2 * PIXELS + places)
        return max(staged, 4 * WIDE_THREADS * SUMS)  # sums take the place of what was multiplied

    @cached_property
    def costs(self) -> dict[PixelTile, TileCost]:
        kind, k, (_, high, wide) = self.kind, self.window.k, self.written
        box = (1, 1) if self.few else (max(1, min(k, TAPS // k)), min(k, TAPS))
        found = {}
        for tile in tiles(self.n, high, wide, False, (box,)):
            if self.shared(tile) > self.limits.shared_opt_in:
                continue
            halo = tile.pixels if self.few else tile.halo(self.window.stride)
            taps = 1 if self.few else tile.tap_rows * tile.tap_columns
            bringing = (halo * CHANNELS + PIXELS * OUTPUTS) / 32 * BRING * (1.5 if kind.has_scales else 1)
            mmas = taps * OUTPUTS * CHANNELS * ceil_div(tile.pixels, DEPTH) * DEPTH / 2048
            busy = bringing + mmas * kind.work * MMA
            found[tile] = TileCost(tile.tiles(self.n, high, wide), self.blocks(tile), 1, STAGE + busy, STAGE + busy)
        return found

    def partials(self, plan: GeneralPlan) -> int:
        return plan.parts * self.numbers

    def cycles(self, plan: GeneralPlan) -> float:
        return self.rounds(plan) + adding_partials(plan.parts, self.numbers)
