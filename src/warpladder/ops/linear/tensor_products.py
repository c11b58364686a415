"""Products of matrices on tensor cores, as launches: which tile a block makes, and into how many parts sums are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...device import Array, Launch, Limits
from ...device.limits import Resources
from ...device.occupancy import blocks_per_multiprocessor
from ...peaks import RATES, TENSOR
from ..busy import BYTES, LAUNCH, MOST
from ..kernels import Launches, OnDevice, ceil_div
from .products import add_parts

SOURCE = Path(__file__).with_name("tensor.cu")

#: Terms of a sum that a block takes at a time, as cu/tensor_panels.cuh has it; and the fewest in a part of a sum.
DEPTH = 32
LEAST = 4 * DEPTH

#: Of the peak of tensor cores, what mma.sync reaches on Hopper (docs/tensor.md), and what a multiprocessor multiplies so in a cycle: FLOPs in bf16 or half.
REACHED = 0.63
RATE = REACHED * RATES[9, 0][TENSOR]["fp16"]

#: Bytes that a multiprocessor gets in a cycle from its shared memory, and from the second-level cache where all ask at once: assumed, 6 TB/s for an H200.
SHARED_BYTES, CACHE_BYTES = 128, 24

#: Cycles of a step at least, from the loads of a panel to the barrier behind it: assumed.
WAIT = 800


@dataclass(frozen=True)
class Format:
    """What the kernel makes of factors.

    name : as tensor.cu calls it.
    work : what a product takes, in units of one in bf16.
    copies, itemsize : how often a number is kept in shared memory, and the bytes of each time.
    """

    name: str
    work: int
    copies: int
    itemsize: int


#: By the precision that products are asked for in.
FORMATS = {"fp32": Format("SPLIT", 3, 2, 2), "tf32": Format("TF32", 2, 1, 4), "bf16": Format("BF16", 1, 1, 2)}


@dataclass(frozen=True)
class Tile:
    """The numbers of C that a block makes, rows and columns, those that a warp of it makes, and the blocks that fit a multiprocessor by their registers."""

    bm: int
    bn: int
    wm: int
    wn: int
    blocks: int

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def __str__(self) -> str:
        return f"{self.bm}, {self.bn}, {self.wm}, {self.wn}, {self.blocks}"

    def shared(self, kind: Format, a_along: bool, b_along: bool) -> int:
        """Bytes of shared memory of a block: two stages, each a panel of A and one of B, as cu/tensor_panels.cuh lays them out."""

        def panel(lines: int, along: bool) -> int:
            by_line = along or kind.name == "TF32"
            rows, numbers = (lines, DEPTH) if by_line else (DEPTH, lines)
            scales = 4 * lines if kind.name == "SPLIT" else 0
            return kind.copies * rows * (numbers * kind.itemsize + 16) + scales

        return 2 * (panel(self.bm, a_along) + panel(self.bn, b_along))

    def cycles(self, kind: Format) -> float:
        """What DEPTH terms of a tile take a multiprocessor: copied, written to shared memory and read from there, or multiplied, whichever is longest."""
        copied = 4 * (self.bm + self.bn) * DEPTH / CACHE_BYTES
        multiplied = 2 * self.bm * self.bn * DEPTH * kind.work / RATE
        read = self.bm * self.bn // self.wn + self.bn * self.bm // self.wm
        return max(copied, (self.bm + self.bn + read) * DEPTH * kind.copies * kind.itemsize / SHARED_BYTES, multiplied)


#: Large ones for large matrices, narrow ones for layers with few outputs.
TILES = (Tile(128, 128, 64, 32, 1), Tile(64, 64, 32, 32, 3), Tile(64, 16, 16, 16, 4), Tile(16, 64, 16, 16, 4))


@dataclass(frozen=True)
class Cut:
    """A tile, and the parts into which each sum is cut: all of `depth` terms, a multiple of DEPTH, but for the last."""

    tile: Tile
    depth: int
    parts: int


@cache
def cuts(m: int, n: int, k: int, kind: Format, limits: Limits, a_along: bool, b_along: bool) -> tuple[Cut, ...]:
    """Ways to cut a product (m, k) by (k, n), the fastest by the model first.

    The model: a multiprocessor's blocks take turns at its tensor cores and shared memory, a step of a block takes WAIT cycles at least, the first one twice
    as long, and the parts of sums are written and read once more.
    """
    found: dict[Cut, float] = {}
    for tile in TILES:
        shared, tiles = tile.shared(kind, a_along, b_along), ceil_div(m, tile.bm) * ceil_div(n, tile.bn)
        if shared > limits.shared_opt_in:
            continue
        resident = min(tile.blocks, blocks_per_multiprocessor((tile.threads, 1, 1), shared, Resources(), limits))
        for wanted in range(1, max(1, min(MOST, ceil_div(k, LEAST))) + 1):
            depth = ceil_div(ceil_div(k, wanted), DEPTH) * DEPTH
            parts = ceil_div(k, depth)
            each = ceil_div(tiles * parts, limits.multiprocessors)
            together = min(each, max(1, resident))
            busy = together * tile.cycles(kind)
            step = max(WAIT, busy) + min(WAIT, busy) / 4  # neither hides quite behind the other
            adding = LAUNCH + 4 * (2 * parts + 1) * m * n / BYTES if parts > 1 else 0.0
            found[Cut(tile, depth, parts)] = ceil_div(each, together) * (depth // DEPTH + 1) * step + adding
    return tuple(sorted(found, key=lambda cut: found[cut]))


class TensorProduct:
    """C (m, n) = A B with sums of k terms on tensor cores, for up to `capacity` samples.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    shape : callable
        m, n and k for a number of samples.
    capacity : int
    a_along, b_along : bool
        Whether A is stored as (m, k), not as (k, m), and B as (n, k), not as (k, n).
    precision : str
        "fp32", whose factors are split into two halves, "tf32" or "bf16", whose factors are rounded.

    Attributes
    ----------
    parts : Array or None
        What the parts of sums are written to, where sums of some number of samples are cut.
    """

    def __init__(
        self, owner: OnDevice, shape: Callable[[int], tuple[int, int, int]], capacity: int, a_along: bool, b_along: bool, precision: str
    ) -> None:  # fmt: skip
        self.device, self.shape, self.a_along, self.b_along = owner.device, shape, a_along, b_along
        self.kind, self.room = FORMATS[precision], 0
        for n in {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}:
            first, (rows, columns, _) = self._cuts(n)[0], shape(n)
            self.room = max(self.room, first.parts * rows * columns if first.parts > 1 else 0)
        self.parts = owner.scratch((self.room,)) if self.room else None

    def _cuts(self, samples: int) -> tuple[Cut, ...]:
        return cuts(*self.shape(samples), self.kind, self.device.limits, self.a_along, self.b_along)

    def cut(self, samples: int) -> Cut:
        """The fastest way by the model that there is room for."""
        m, n, _ = self.shape(samples)
        return next(cut for cut in self._cuts(samples) if cut.parts == 1 or cut.parts * m * n <= self.room)

    def product(self, samples: int, a: Array, b: Array, c: Array, bias: Array | None = None, rectify: bool = False) -> tuple[Launch, int]:
        """The launch, and in how many parts it leaves the sums: one is in c, finished; more are in `parts`, without bias and ReLU."""
        cut, (m, n, k) = self.cut(samples), self.shape(samples)
        tile, whole = cut.tile, cut.parts == 1
        along = f"{self.a_along}, {self.b_along}".lower()
        kernel = self.device.kernel(SOURCE, f"multiply<{self.kind.name}, {tile}, {along}>")
        launch = kernel.bind(
            (ceil_div(m, tile.bm) * ceil_div(n, tile.bn), cut.parts), tile.threads, a, b, bias if whole else None,
            c if whole else self.parts, m, n, k, cut.depth, int(rectify and whole),
            shared=tile.shared(self.kind, self.a_along, self.b_along),
        )  # fmt: skip
        return launch, cut.parts

    def launches(self, samples: int, a: Array, b: Array, c: Array, bias: Array | None = None, rectify: bool = False) -> Launches:
        """c = A B + bias (n,), then max(., 0) where it is wanted."""
        launch, parts = self.product(samples, a, b, c, bias, rectify)
        if parts == 1:
            return [launch]
        m, n, _ = self.shape(samples)
        return [launch, add_parts(self.device, self.parts, parts, bias, c, m, n, rectify)]
