"""A convolution in one direction, as launches: weights packed, the product, and the sum of its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ...device import Array, Launch
from ..kernels import Launches, OnDevice, ceil_div
from ..tiles import CANDIDATES, Plan, Planned, Tile

GEMM = Path(__file__).with_name("gemm.cu")
PACK = Path(__file__).with_name("pack.cu")

#: Below this many input channels the rows of the product are ordered without padding (FEW in gemm.cu).
FEW = 8

THREADS = 256

Image = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """Which image is read, which is written, and how.

    read, written : (channels, height, width).
    k, stride, padding : of the convolution; where `transposed`, of that from the written image to the read one.
    fold : of the enlargement that is folded into the weights, which are then (k - fold + 1) x (k - fold + 1); 1 for none.
    swapped : whether the weights are stored as (read channels, written channels, ...), not the other way round.
    """

    read: Image
    written: Image
    k: int
    stride: int
    padding: int
    transposed: bool = False
    fold: int = 1
    swapped: bool = False

    @property
    def few(self) -> bool:
        return self.read[0] < FEW and self.read[0] * self.taps <= 512

    @property
    def classes(self) -> int:
        """Sets of written pixels that meet the same numbers of the kernel."""
        return self.stride**2 if self.transposed else 1

    @property
    def taps(self) -> int:
        """Pixels that a written one reads in each channel, at most."""
        return ceil_div(self.k, self.stride) ** 2 if self.transposed else self.k**2

    def rows(self, tile: Tile) -> int:
        """Terms of each sum, those included that are there to fill up a tile."""
        channels = self.read[0]
        return self.taps * (channels if self.few else ceil_div(channels, tile.bk) * tile.bk)


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
        channels, self.pixels = geometry.written[0], math.prod(geometry.written[1:])
        self.plan = Planned(lambda n: (channels, n * self.pixels, geometry.rows), self.device.limits, capacity)
        self.parts = owner.scratch((self.plan.room,)) if self.plan.room else None
        rows = max(geometry.rows(tile) for tile in CANDIDATES)
        self.packed = owner.scratch((geometry.classes * rows * ceil_div(channels, 4) * 4,))

    def launches(
        self,
        n: int,
        x: Array,
        w: Array,
        bias: Array | None,
        y: Array,
        rectify: bool = False,
        pool: bool = False,
        winner: Array | None = None,
    ) -> Launches:
        """y[:n] from x[:n], + bias, then ReLU and a 2 x 2 pool where they are wanted."""
        geometry, plan = self.geometry, self.plan(n)
        tile, (channels, high, wide) = plan.tile, geometry.written
        class_size = geometry.rows(tile) * ceil_div(channels, 4) * 4
        size = geometry.classes * class_size
        shape = geometry.k, geometry.stride, geometry.padding
        pack = self.device.kernel(PACK, "pack_weights").bind(
            ceil_div(size, THREADS), THREADS, w, self.packed, channels, geometry.read[0], geometry.k, geometry.fold, int(geometry.swapped),
            int(geometry.transposed), geometry.stride, 0 if geometry.few else tile.bk, class_size, size,
        )  # fmt: skip
        whole = plan.parts == 1
        after = ("POOL" if pool else "RECTIFY" if rectify else "PLAIN") if whole else "PLAIN"
        kernel = self.device.kernel(GEMM, f"convolve<{tile}, {_cpp(geometry.transposed)}, {_cpp(geometry.few)}, {after}>")
        count = n * (high // 2) * (wide // 2) * 4 if after == "POOL" else n * _largest(geometry, high) * _largest(geometry, wide)
        tiles = ceil_div(channels, tile.bm) * geometry.classes * ceil_div(count, tile.bn)
        part_size = n * channels * self.pixels
        table = 8 * geometry.rows(tile) if geometry.few else 0
        target = y if whole else self.parts
        product = kernel.bind(
            (tiles, plan.parts), tile.threads, x, self.packed, bias if whole else None, target, winner if after == "POOL" else None, n,
            *geometry.read, *geometry.written, *shape, class_size, plan.depth, part_size, shared=tile.shared + table,
        )  # fmt: skip
        return [pack, product] if whole else [pack, product, self._finish(n, plan, bias, y, rectify, pool, winner)]

    def _finish(self, n: int, plan: Plan, bias: Array | None, y: Array, rectify: bool, pool: bool, winner: Array | None) -> Launch:
        channels, high, wide = self.geometry.written
        if pool:
            size = n * channels * (high // 2) * (wide // 2)
            return self.device.kernel(GEMM, "add_parts_and_pool").bind(
                ceil_div(size, THREADS), THREADS, self.parts, bias, y, winner, plan.parts, n * channels * self.pixels, size, channels, high // 2,
                wide // 2, high, wide,
            )  # fmt: skip
        size = n * channels * self.pixels
        add = self.device.kernel(GEMM, "add_parts")
        return add.bind(ceil_div(size, THREADS), THREADS, self.parts, bias, y, plan.parts, size, channels, self.pixels, int(rectify))


def _largest(geometry: Geometry, size: int) -> int:
    """Pixels of the largest class along an axis."""
    return ceil_div(size, geometry.stride) if geometry.transposed else size


def _cpp(value: bool) -> str:
    return "true" if value else "false"
