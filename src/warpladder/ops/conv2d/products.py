"""A convolution in one direction, as launches: weights packed, the product, and the sum of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...device import Array, Launch, Limits
from ..cost.tiles import ACROSS, CANDIDATES, PATCHES, Planned, Shape, Tile
from ..engine.kernels import Launches, OnDevice, ceil_div

GEMM = Path(__file__).with_name("gemm.cu")
PACK = Path(__file__).with_name("pack.cu")

#: Below this many input channels the rows of the product are ordered without padding (FEW in gemm.cu).
FEW = 8

#: Up to this many numbers for each pixel of the small image a transpose computes all classes at once.
MERGED = 16

WAYS = ("FORWARD", "TRANSPOSED", "MERGED")

AFTER = ("PLAIN", "RECTIFY", "POOL")

#: Of a block of add_parts: fours of pixels, and threads for each at most.
ADDING, TURNS = 64, 16

#: Of a block of pack.cu: input and output channels, and bytes of shared memory for where taps go.
INPUTS, OUTPUTS, ENTRIES = 8, 32, 8 << 10

Image = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """Which image is read, which is written, and how.

    read, written : (channels, height, width).
    k, stride, padding : of the convolution; where `transposed`, of that from the written image to the read one.
    fold : of the enlargement that is folded into the weights, which are then (k - fold + 1) x (k - fold + 1); 1 for
    none.
    swapped : whether the weights are stored as (read channels, written channels, ...), not the other way round.
    pool : whether a 2 x 2 pool follows.
    """

    read: Image
    written: Image
    k: int
    stride: int
    padding: int
    transposed: bool = False
    fold: int = 1
    swapped: bool = False
    pool: bool = False

    @property
    def way(self) -> str:
        """FORWARD, TRANSPOSED or MERGED, as gemm.cu has them."""
        if not self.transposed:
            return "FORWARD"
        return "MERGED" if self.stride > 1 and self.stride**2 * self.written[0] <= MERGED else "TRANSPOSED"

    @property
    def few(self) -> bool:
        return self.read[0] < FEW and self.read[0] * self.taps <= 512

    @property
    def classes(self) -> int:
        """Sets of written pixels that are computed apart from one another."""
        return self.stride**2 if self.way == "TRANSPOSED" else 1

    @property
    def taps(self) -> int:
        """Pixels that a written one, or those that are computed together, read in each channel, at most."""
        if self.way == "MERGED":
            reach = [self._reach(phase) for phase in range(min(self.stride, self.k))]
            return (max(last for _, last in reach) - min(first for first, _ in reach)) ** 2
        return ceil_div(self.k, self.stride) ** 2 if self.transposed else self.k**2

    def _reach(self, phase: int) -> tuple[int, int]:
        """The taps of a phase, from the first to beyond the last (transposed_axis in gemm_patches.cuh)."""
        taps, begin = ceil_div(self.k - phase, self.stride), (phase - self.padding) % self.stride
        last = (begin + self.padding - phase) // self.stride + 1
        return last - taps, last

    def rows(self, tile: Tile) -> int:
        """Terms of each sum, those included that are there to fill up a tile."""
        channels = self.read[0]
        return self.taps * (channels if self.few else ceil_div(channels, tile.bk) * tile.bk)

    @property
    def columns(self) -> int:
        """Numbers that are computed for each pixel."""
        return self.written[0] * (self.stride**2 if self.way == "MERGED" else 1)

    @property
    def pixels(self) -> int:
        """Pixels of an image, as the product counts them; of classes, those of the largest."""
        _, high, wide = self.written
        if self.pool:
            return (high // 2) * (wide // 2) * 4
        return ceil_div(high, self.stride) * ceil_div(wide, self.stride) if self.transposed else high * wide

    def pitch(self, n: int) -> int:
        """Pixels of a class of n images, rounded up to a multiple of 4."""
        return ceil_div(n * self.pixels, 4) * 4

    def class_size(self, tile: Tile) -> int:
        """Numbers of the packed weights of a class."""
        return self.rows(tile) * ceil_div(self.columns, 4) * 4


class Convolution:
    """One direction of a convolution for up to `capacity` images.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    geometry : Geometry
    capacity : int
    """

    def __init__(self, owner: OnDevice, geometry: Geometry, capacity: int) -> None:
        self.device, self.geometry = owner.device, geometry

        def shape(n: int) -> Shape:
            return geometry.columns, geometry.classes * geometry.pitch(n), geometry.rows

        self.plan = Planned(shape, self.device.limits, capacity, copies=(ACROSS, PATCHES))
        self.parts = owner.scratch((self.plan.room,)) if self.plan.room else None
        self.packed = owner.scratch((geometry.classes * max(geometry.class_size(tile) for tile in CANDIDATES),))

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
        geometry, plan = self.geometry, self.plan(n)
        tile, whole, pitch, window = (
            plan.tile,
            plan.parts == 1,
            geometry.pitch(n),
            (geometry.k, geometry.stride, geometry.padding),
        )
        after = "POOL" if geometry.pool else "RECTIFY" if rectify else "PLAIN"
        done = after if whole else "POOLED_PARTS" if geometry.pool else "PARTS"
        kernel = self.device.kernel(
            GEMM, f"convolve<{tile}, {geometry.way}, {'true' if geometry.few else 'false'}, {done}>"
        )
        tiles = ceil_div(geometry.columns, tile.bm) * geometry.classes * ceil_div(n * geometry.pixels, tile.bn)
        table = 8 * geometry.rows(tile) if geometry.few else 0
        product = kernel.bind(
            (tiles, plan.parts), tile.threads, x, self.packed, bias if whole else None, below if whole else None, y if whole else self.parts,
            winner if whole else None, n, *geometry.read, *geometry.written, *window, geometry.class_size(tile), plan.depth, pitch,
            shared=tile.shared + table,
        )  # fmt: skip
        if whole:
            return self.plan.mark([product])
        fours = geometry.classes * geometry.columns * (pitch // 4)
        add = self.device.kernel(GEMM, "add_parts").bind(
            ceil_div(fours, ADDING), (ADDING, turns(fours, plan.parts, TURNS, self.device.limits)), self.parts, bias, below, y, winner,
            plan.parts, pitch, n, *geometry.written, *window, WAYS.index(geometry.way), AFTER.index(after),
        )  # fmt: skip
        return self.plan.mark([product, add])

    def packing(self, n: int) -> tuple[Array, int, int, int]:
        """How the product of n images reads the weights: where, which way, channels of a step, numbers of a class."""
        geometry, tile = self.geometry, self.plan(n).tile
        return self.packed, WAYS.index(geometry.way), 0 if geometry.few else tile.bk, geometry.class_size(tile)

    def packers(self, n: int) -> int:
        """Blocks that pack the weights."""
        geometry, tile = self.geometry, self.plan(n).tile
        inputs = geometry.read[0] if geometry.few else ceil_div(geometry.read[0], tile.bk) * tile.bk
        return ceil_div(inputs, INPUTS) * ceil_div(geometry.written[0] + -geometry.columns % 4, OUTPUTS)


def turns(sums: int, parts: int, most: int, limits: Limits) -> int:
    """Threads that share a sum of parts: few sums are shared by many, so that all of the device reads, and each thread
    little.
    """
    found = 1
    while found < min(most, parts) and 2 * found * sums <= 1024 * limits.multiprocessors:
        found *= 2
    return found


def pack(n: int, w: Array, forward: Convolution, backward: Convolution | None) -> Launch:
    """Packs a layer's weights for n images: for its forward pass, and for its input gradient where there is one."""
    geometry, half = forward.geometry, forward.packers(n)
    others = backward.packing(n) if backward is not None else (None, 0, 0, 0)
    blocks = half + (backward.packers(n) if backward is not None else 0)
    shared = 4 * OUTPUTS * (INPUTS * (geometry.k - geometry.fold + 1) ** 2 + 1)
    staged = shared <= forward.device.limits.shared_opt_in - ENTRIES
    return forward.device.kernel(PACK, "pack_weights").bind(
        blocks, 32 * INPUTS, w, geometry.written[0], geometry.read[0], geometry.k, geometry.fold, geometry.stride, geometry.padding,
        *forward.packing(n), *others, half, int(staged), shared=shared if staged else 0,
    )  # fmt: skip
