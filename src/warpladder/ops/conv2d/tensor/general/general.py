"""Convolutions on tensor cores, as launches: which tile of pixels a block has, which taps a stage, and into how many
parts sums are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from .....device import Array, Launch, Limits
from ....cost.launch import BYTES, LAUNCH, MOST
from ....engine.kernels import Launches, OnDevice, ceil_div
from ...gradients import Gradients, columns, finish
from ...products import ADDING, AFTER, GEMM, TURNS, WAYS, Geometry, Image, turns

SOURCE = Path(__file__).with_name("product.cu")
PACK = Path(__file__).with_name("pack.cu")
WEIGHTS = Path(__file__).with_name("weights.cu")

#: As in the kernels: terms of a stage, pixels of a block, its threads, and the panels of weights that it has room for.
DEPTH, PIXELS, THREADS, RING = 32, 128, 128, 3

#: As in tensor_pack.cu: threads of a block.
PACKING = 512

#: As in tensor_weights.cu: outputs and channels of a block, its threads, its taps, and sums of a thread.
OUTPUTS, CHANNELS, WIDE_THREADS, TAPS, SUMS = 64, 32, 384, 9, 48

#: Outputs that a block of `convolve` makes, the widest first.
WIDTHS = (64, 32, 16)

#: Blocks of `convolve` that a multiprocessor's registers have room for.
RESIDENT = 3

#: Cycles of the tensor cores for an mma of 16 bits, at 63 % of their peak (docs/tensor.md); of a stage and a panel at
#: least, while a block waits; and of a multiprocessor to bring 32 numbers to shared memory: all but the first assumed.
MMA, STAGE, PANEL, BRING = 1.6, 1500, 250, 2.5


@dataclass(frozen=True)
class Format:
    """What the kernels make of factors.

    name : as tensor_panels.cuh calls it.
    work : what a product takes, in units of one in bf16.
    bytes : that a number takes in shared memory.
    scaled : whether each line has a scale.
    """

    name: str
    work: int
    bytes: int
    scaled: bool


#: By the precision that products are asked for in.
FORMATS = {
    "fp32": Format("SPLIT", 3, 4, True),
    "tf32": Format("TF32", 2, 4, False),
    "bf16": Format("BF16", 1, 2, False),
    "fp16": Format("HALF", 1, 2, True),
}


@dataclass(frozen=True)
class Tile:
    """The pixels of a block, images by rows by columns, and the box of taps that a stage has, rows by columns: whole
    rows of taps, or part of one.
    """

    images: int
    rows: int
    columns: int
    tap_rows: int
    tap_columns: int

    @property
    def pixels(self) -> int:
        return self.images * self.rows * self.columns

    def halo(self, stride: int) -> int:
        """Pixels that are read for the tile, rounded up to a multiple of 16."""
        high, wide = (self.rows - 1) * stride + self.tap_rows, (self.columns - 1) * stride + self.tap_columns
        return ceil_div(self.images * high * wide, 16) * 16

    def tiles(self, n: int, high: int, wide: int) -> int:
        """Tiles that cover n images of so many pixels."""
        return ceil_div(n, self.images) * ceil_div(high, self.rows) * ceil_div(wide, self.columns)


def tiles(n: int, high: int, wide: int, windows: bool, boxes: tuple[tuple[int, int], ...]) -> Iterator[Tile]:
    """Ways to cover n images by tiles of PIXELS pixels at most; with windows, of whole windows of 2 x 2."""
    step = 2 if windows else 1
    high, wide, most = high // step, wide // step, PIXELS // step**2
    for pieces in range(1, wide + 1):
        across = ceil_div(wide, pieces)
        if across > most or (pieces > 1 and across * step < 4):
            continue
        down = ceil_div(high, ceil_div(high, min(high, most // across)))
        images = min(n, most // (down * across)) if (down, across) == (high, wide) else 1
        for box in boxes:
            yield Tile(images, step * down, step * across, *box)


def boxes_of(rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    """Boxes into which a window's taps may be cut: all of them, a row, a part of one, one tap."""
    return tuple(dict.fromkeys(((rows, columns), (1, columns), (1, min(8, columns)), (1, 1))))


@dataclass(frozen=True)
class Cut:
    """A tile, and the parts into which each sum is cut: all of `depth` stages, but for the last."""

    tile: Tile
    depth: int
    parts: int


@dataclass(frozen=True)
class Form:
    """What of a geometry the kernel `convolve` is compiled and packed for.

    few : whether a stage's terms are (channel, tap), and not channels.
    bn : outputs of a block.
    taps : rows and columns of taps, of the class that has most.
    stages : of 32 channels or terms, for one box of taps.
    """

    few: bool
    bn: int
    taps: tuple[int, int]
    stages: int

    @property
    def panels(self) -> int:
        """Panels of a class and tile of outputs."""
        return self.stages if self.few else self.stages * self.taps[0] * self.taps[1]


def form(geometry: Geometry) -> Form:
    """The kernel's form for a geometry: the narrowest block that has all outputs, else the widest."""
    side = round(geometry.taps**0.5)
    bn = next((width for width in reversed(WIDTHS) if width >= geometry.columns), WIDTHS[0])
    channels = geometry.read[0]
    return Form(geometry.few, bn, (side, side), ceil_div(channels * side * side if geometry.few else channels, DEPTH))


def panel_bytes(bn: int, kind: Format) -> int:
    """Bytes of a panel of weights, with what undoes its scales."""
    return bn * (DEPTH * kind.bytes + (4 if kind.scaled else 0))


def shared_bytes(geometry: Geometry, shape: Form, tile: Tile, kind: Format) -> int:
    """Bytes of shared memory of a block of `convolve`."""
    stride = 1 if geometry.transposed else geometry.stride
    room = ceil_div(tile.pixels, 16) * 16 if shape.few else tile.halo(stride)
    table = 8 * geometry.read[0] * shape.taps[0] * shape.taps[1] if shape.few else 4 * room
    staged = RING * panel_bytes(shape.bn, kind) + room * (DEPTH * kind.bytes + (4 if kind.scaled else 0)) + table
    return max(staged, 4 * PIXELS * shape.bn)  # sums take the place of what was multiplied


def class_image(geometry: Geometry) -> tuple[int, int]:
    """Rows and columns of the largest class of written pixels that a tile is cut from."""
    _, high, wide = geometry.written
    if geometry.pool:
        return high // 2 * 2, wide // 2 * 2
    return (ceil_div(high, geometry.stride), ceil_div(wide, geometry.stride)) if geometry.transposed else (high, wide)


@cache
def convolution_cuts(n: int, geometry: Geometry, kind: Format, limits: Limits) -> tuple[Cut, ...]:
    """Ways to cut a convolution of n images, the fastest by the model first.

    The model: a multiprocessor's blocks take turns at its tensor cores, a stage of a block takes STAGE cycles at least
    and a panel PANEL, and the parts of sums are written and read once more.
    """
    shape, (high, wide), found = form(geometry), class_image(geometry), {}
    stride = 1 if geometry.transposed else geometry.stride
    across = ceil_div(geometry.columns, shape.bn) * geometry.classes
    boxes = ((1, 1),) if shape.few else boxes_of(*shape.taps)
    steps = ceil_div(min(DEPTH, geometry.read[0] * (shape.taps[0] * shape.taps[1] if shape.few else 1)), 16)
    for tile in tiles(n, high, wide, geometry.pool, boxes):
        if shared_bytes(geometry, shape, tile, kind) > limits.shared_opt_in:
            continue
        blocks = tile.tiles(n, high, wide) * across
        count = 1 if shape.few else ceil_div(shape.taps[0], tile.tap_rows) * ceil_div(shape.taps[1], tile.tap_columns)
        taps, stages = (
            1 if shape.few else min(tile.tap_rows * tile.tap_columns, shape.taps[0] * shape.taps[1]),
            shape.stages * count,
        )
        halo = tile.pixels * 3 if shape.few else tile.halo(stride)
        panel = PIXELS // 16 * (shape.bn // 8) * steps * kind.work * MMA
        busy = halo * DEPTH / 32 * BRING + taps * panel
        resident = min(
            RESIDENT, max(1, limits.shared_per_multiprocessor // (shared_bytes(geometry, shape, tile, kind) + 1024))
        )
        for depth in sorted({ceil_div(stages, parts) for parts in range(1, min(stages, MOST) + 1)}):
            parts = ceil_div(stages, depth)
            each = ceil_div(blocks * parts, limits.multiprocessors)
            together = min(each, resident)
            step = max(STAGE + taps * max(PANEL, panel), together * busy)
            adding = (
                LAUNCH + 4 * (2 * parts + 1) * geometry.classes * geometry.columns * geometry.pitch(n) / BYTES
                if parts > 1
                else 0.0
            )
            found[Cut(tile, depth, parts)] = ceil_div(each, together) * (depth * step + STAGE) + adding
    return tuple(sorted(found, key=lambda cut: found[cut]))


class TensorConvolution:
    """One direction of a convolution on tensor cores for up to `capacity` images.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    geometry : Geometry
    capacity : int
    precision : str
        "fp32", whose factors are split into two halves; "tf32", "bf16" or "fp16", whose factors are rounded.
    """

    def __init__(self, owner: OnDevice, geometry: Geometry, capacity: int, precision: str) -> None:
        self.device, self.geometry, self.kind, self.form = owner.device, geometry, FORMATS[precision], form(geometry)
        self.room = 0
        for n in {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}:
            first = self._cuts(n)[0]
            self.room = max(self.room, self._part(n) * first.parts if first.parts > 1 else 0)
        self.parts = owner.scratch((self.room,)) if self.room else None
        self.packed = owner.scratch((self.packers * panel_bytes(self.form.bn, self.kind) // 4,), np.uint32)

    def _cuts(self, n: int) -> tuple[Cut, ...]:
        return convolution_cuts(n, self.geometry, self.kind, self.device.limits)

    def _part(self, n: int) -> int:
        """Numbers of a part of n images' sums."""
        return self.geometry.classes * self.geometry.columns * self.geometry.pitch(n)

    def cut(self, n: int) -> Cut:
        """The fastest way by the model that there is room for."""
        return next(cut for cut in self._cuts(n) if cut.parts == 1 or cut.parts * self._part(n) <= self.room)

    @property
    def packers(self) -> int:
        """Panels of packed weights, and blocks that pack them."""
        return self.geometry.classes * ceil_div(self.geometry.columns, self.form.bn) * self.form.panels

    def packing(self) -> tuple[Array, int, int, int, int]:
        """How it reads the weights: where, which way, whether by terms, outputs of a panel, panels of a class and tile."""
        return self.packed, WAYS.index(self.geometry.way), int(self.form.few), self.form.bn, self.form.panels

    def launches(
        self,
        n: int,
        x: Array,
        bias: Array | None,
        y: Array,
        rectify: bool = False,
        winner: Array | None = None,
        below: Array | None = None,
    ) -> Launches:
        """y[:n] from x[:n] and the packed weights, + bias, then the ReLU and the pool where they are wanted; 0 where
        below is not above 0.
        """
        geometry, cut, window = (
            self.geometry,
            self.cut(n),
            (self.geometry.k, self.geometry.stride, self.geometry.padding),
        )
        tile, whole, pitch = cut.tile, cut.parts == 1, geometry.pitch(n)
        after = AFTER.index("POOL" if geometry.pool else "RECTIFY" if rectify else "PLAIN")
        kernel = self.device.kernel(
            SOURCE, f"convolve<{self.kind.name}, {self.form.bn}, {'true' if self.form.few else 'false'}>"
        )
        blocks = ceil_div(geometry.columns, self.form.bn) * geometry.classes * tile.tiles(n, *class_image(geometry))
        product = kernel.bind(
            (blocks, cut.parts), THREADS, x, self.packed, bias if whole else None, below if whole else None, y if whole else self.parts,
            winner if whole else None, n, *geometry.read, *geometry.written, *window, WAYS.index(geometry.way), tile.images, tile.rows,
            tile.columns, tile.tap_rows, tile.tap_columns, self.form.panels, cut.depth, pitch, after if whole else 4 if geometry.pool else 3,
            shared=shared_bytes(geometry, self.form, tile, self.kind),
        )  # fmt: skip
        if whole:
            return [product]
        fours = geometry.classes * geometry.columns * (pitch // 4)
        add = self.device.kernel(GEMM, "add_parts").bind(
            ceil_div(fours, ADDING), (ADDING, turns(fours, cut.parts, TURNS, self.device.limits)), self.parts, bias, below, y, winner,
            cut.parts, pitch, n, *geometry.written, *window, WAYS.index(geometry.way), after,
        )  # fmt: skip
        return [product, add]


def pack(w: Array, forward: TensorConvolution, backward: TensorConvolution | None) -> Launch:
    """Packs a layer's weights: for its forward pass, and for its input gradient where there is one."""
    geometry, half = forward.geometry, forward.packers
    others = backward.packing() if backward is not None else (None, 0, 0, 0, 0)
    kernel = forward.device.kernel(PACK, f"pack_weights<{forward.kind.name}>")
    return kernel.bind(
        half + (backward.packers if backward is not None else 0), PACKING, w, geometry.written[0], geometry.read[0], geometry.k,
        geometry.fold, geometry.stride, geometry.padding, *forward.packing(), *others, half,
    )  # fmt: skip


@dataclass(frozen=True)
class Correlation:
    """A weight gradient's images and window: dw[o, c, tap] = sum over n images of written[o] read[c, through the
    window].
    """

    read: Image
    written: Image
    k: int
    stride: int
    padding: int

    @property
    def few(self) -> bool:
        """Whether columns are (channel, tap): where a block's channels would be mostly none."""
        return self.read[0] < 8 and self.read[0] * self.k * self.k <= 512

    def blocks(self, tile: Tile) -> int:
        """Blocks of a part of the pixels."""
        boxes = 1 if self.few else ceil_div(self.k, tile.tap_rows) * ceil_div(self.k, tile.tap_columns)
        return (
            ceil_div(self.written[0], OUTPUTS)
            * ceil_div(self.read[0] * (self.k**2 if self.few else 1), CHANNELS)
            * boxes
        )

    def shared(self, tile: Tile, kind: Format) -> int:
        """Bytes of shared memory of a block of `correlate`."""
        room = ceil_div(tile.pixels, 16) * 16 if self.few else tile.halo(self.stride)
        places = 3 * PIXELS + 2 * CHANNELS if self.few else room
        staged = kind.bytes * (room * CHANNELS + PIXELS * OUTPUTS) + 4 * (CHANNELS + OUTPUTS + 2 * PIXELS + places)
        return max(staged, 4 * WIDE_THREADS * SUMS)  # sums take the place of what was multiplied


@cache
def correlation_cuts(n: int, shape: Correlation, kind: Format, limits: Limits) -> tuple[Cut, ...]:
    """Ways to cut the weight gradient of n images, the fastest by the model first; depth counts tiles of pixels. As
    `convolution_cuts`.
    """
    _, high, wide = shape.written
    found = {}
    box = (1, 1) if shape.few else (max(1, min(shape.k, TAPS // shape.k)), min(shape.k, TAPS))
    for tile in tiles(n, high, wide, False, (box,)):
        if shape.shared(tile, kind) > limits.shared_opt_in:
            continue
        stages, blocks, size = (
            tile.tiles(n, high, wide),
            shape.blocks(tile),
            shape.written[0] * columns(shape.read[0], shape.k),
        )
        halo = tile.pixels if shape.few else tile.halo(shape.stride)
        taps = 1 if shape.few else tile.tap_rows * tile.tap_columns
        busy = (halo * CHANNELS + PIXELS * OUTPUTS) / 32 * BRING * (
            1.5 if kind.scaled else 1
        ) + taps * OUTPUTS * CHANNELS * ceil_div(tile.pixels, DEPTH) * DEPTH / 2048 * kind.work * MMA
        for depth in {ceil_div(stages, parts) for parts in range(1, min(stages, MOST) + 1)}:
            parts = ceil_div(stages, depth)
            each = ceil_div(blocks * parts, limits.multiprocessors)
            found[Cut(tile, depth, parts)] = (
                each * (depth * (STAGE + busy) + STAGE) + LAUNCH + 4 * (2 * parts + 1) * size / BYTES
            )
    return tuple(sorted(found, key=lambda cut: found[cut]))


class TensorWeightGradient:
    """dw and db of a convolution for up to `capacity` images; the arguments are those of `gradients.WeightGradient`,
    and the precision.
    """

    def __init__(
        self, owner: OnDevice, read: Image, written: Image, k: int, stride: int, padding: int, fold: int, capacity: int, precision: str
    ) -> None:  # fmt: skip
        self.device, self.kind, self.fold = owner.device, FORMATS[precision], fold
        self.shape = Correlation(read, written, k, stride, padding)
        self.size = written[0] * columns(read[0], k)
        samples = {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}
        self.most = max(self._cuts(n)[0].parts for n in samples)
        self.parts = owner.scratch((self.most * self.size,))

    def _cuts(self, n: int) -> tuple[Cut, ...]:
        return correlation_cuts(n, self.shape, self.kind, self.device.limits)

    def cut(self, n: int) -> Cut:
        """The fastest way by the model that there is room for."""
        return next(cut for cut in self._cuts(n) if cut.parts <= self.most)

    def launches(self, n: int, read: Array, gradient: Array, sums: Array, slabs: int, to: Gradients) -> Launches:
        """Fill dw from the two images, and db from the first `slabs` rows of sums."""
        cut, shape = self.cut(n), self.shape
        tile = cut.tile
        product = self.device.kernel(WEIGHTS, f"correlate<{self.kind.name}, {'true' if shape.few else 'false'}>").bind(
            (shape.blocks(tile), cut.parts), WIDE_THREADS, read, gradient, self.parts, n, *shape.read, *shape.written, shape.k, shape.stride,
            shape.padding, tile.images, tile.rows, tile.columns, tile.tap_rows, tile.tap_columns, cut.depth, shared=shape.shared(tile, self.kind),
        )  # fmt: skip
        folded = shape.written[0], shape.read[0], shape.k, self.fold
        return [product, finish(self.device, self.parts, cut.parts, sums, slabs, folded, to)]
