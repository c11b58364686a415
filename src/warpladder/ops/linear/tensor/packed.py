"""Packed factors of products on tensor cores: their memory, and the launches that pack them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....device import Array, Launch
from ....errors import KernelError
from ...engine.chain import Slice
from ...engine.kernels import OnDevice, ceil_div
from ...engine.segments import StoredSamples

SOURCE = Path(__file__).with_name("pack.cu")
#: Rows and columns that a warp packs, and so terms of a line with one scale; warps in a block that packs.
BLOCK, WARPS = 32, 4
#: Lines of a packed matrix are a multiple of this, as in the largest tile: copies end within it.
LINES = 128
#: C++ types of stored samples.
TYPES = {np.dtype(np.uint8): "unsigned char", np.dtype(np.float32): "float"}


@dataclass(frozen=True)
class PackedFormat:
    """Format of packed numbers, as in device/include/tensor_packed.cuh.

    name : name in the kernels.
    terms : numbers of a line in a record.
    work : time of a product on tensor cores, in units of a bf16 product's time.
    products : instructions for a product of two numbers.
    mma : terms of an instruction.
    has_scales : True if 32 numbers of a line have an inverse scale.
    record : 4-byte words of a line in a record, which is one step of a product.
    """

    name: str
    terms: int
    work: int
    products: int
    mma: int
    has_scales: bool
    record: int = 32

    @property
    def scales(self) -> int:
        """Number of inverse scales of a line in a record."""
        return self.terms // BLOCK if self.has_scales else 0


#: By precision of the products.
FORMATS = {
    "fp32": PackedFormat("SPLIT", 32, 3, 3, 16, has_scales=True),
    "tf32": PackedFormat("TF32", 32, 2, 1, 8, has_scales=False),
    "bf16": PackedFormat("BF16", 64, 1, 1, 16, has_scales=False),
    "fp16": PackedFormat("HALF", 64, 1, 1, 16, has_scales=True),
}

#: Bytes next to factors in two halves: whole numbers in one half each, with a common scale that is applied to the sums.
EXACT = PackedFormat("EXACT", 32, 1, 1, 16, has_scales=True, record=16)


@dataclass(frozen=True)
class Formats:
    """Formats of a product: of its packed result, of A and of B. A or B may be EXACT if `kind` splits numbers."""

    kind: PackedFormat
    a: PackedFormat
    b: PackedFormat

    @classmethod
    def alike(cls, kind: PackedFormat) -> Formats:
        return cls(kind, kind, kind)

    @property
    def name(self) -> str:
        """Template arguments of the CUDA function `multiply` for these formats: of the products, A and B."""
        return f"{self.kind.name}, {self.a.name}, {self.b.name}"

    @property
    def products(self) -> int:
        """Instructions for a product of two numbers; an exact factor has no low half."""
        return self.kind.products - (self.a is not self.kind) - (self.b is not self.kind)

    @property
    def work(self) -> float:
        """Time of a product on tensor cores, in units of a bf16 product's time."""
        return self.kind.work * self.products / self.kind.products

    def words(self, bm: int, bn: int) -> int:
        """Number of words of the panels of bm lines of A and bn of B, without inverse scales."""
        return bm * self.a.record + bn * self.b.record


class PackedFactor:
    """Packed matrix of up to `lines` lines of up to `terms` numbers, as in device/include/tensor_packed.cuh.

    scale : factor of all numbers, in the format EXACT.
    lines : lines in memory, a multiple of LINES.
    numbers : (records, lines, words of a record) uint32.
    inverse_scale : (terms / 32, lines) float32, in formats with scales; else None.
    """

    def __init__(
        self, owner: OnDevice, lines: int, terms: int, kind: PackedFormat, scale: np.float32 | None = None
    ) -> None:
        self.lines, records = ceil_div(lines, LINES) * LINES, ceil_div(terms, kind.terms)
        self.numbers = owner.scratch((records, self.lines, kind.record), np.uint32)
        self.inverse_scale = owner.scratch((records * kind.scales, self.lines)) if kind.has_scales else None
        # Lines beyond the last one are multiplied too, and no launch reads their results.
        for array in (self.numbers, self.inverse_scale) if self.inverse_scale is not None else (self.numbers,):
            owner.device.fill(array, 0)
        if scale is not None:
            assert self.inverse_scale is not None
            owner.device.upload(self.inverse_scale, np.full(self.inverse_scale.shape, scale, np.float32))


@dataclass(frozen=True)
class Outlet:
    """Packed copies and column sums of a matrix (rows, columns), as destinations of a launch.

    along : copy with the rows as lines, for sums along them.
    across : copy with the columns as lines.
    sums : (row blocks of 32, columns), sum of each column over the 32 rows of a block.
    """

    along: PackedFactor | None = None
    across: PackedFactor | None = None
    sums: Array | None = None

    def arguments(self) -> tuple[Array | int | None, ...]:
        """Arguments of kernels: numbers, inverse_scale and lines of each packed copy."""
        found: list[Array | int | None] = []
        for factor in (self.along, self.across):
            found += [None, None, 0] if factor is None else [factor.numbers, factor.inverse_scale, factor.lines]
        return tuple(found)


def pack(
    owner: OnDevice, kind: PackedFormat, x: Array, rows: int, columns: int, to: Outlet, y: Array | None = None
) -> Launch:
    """Launch that packs x (rows, columns) float32, as 0 where y (rows, columns), unless None, is not above 0."""
    kernel = owner.device.kernel(SOURCE, f"pack<{kind.name}>")
    return kernel.bind(_grid(rows, columns, kind), 32 * WARPS, x, y, *to.arguments(), to.sums, rows, columns)


def pack_samples(
    owner: OnDevice, kind: PackedFormat, samples: StoredSamples, x: Array | None, target: Array | None, part: Slice,
    batch: int, to: Outlet
) -> Launch:  # fmt: skip
    """Launch that packs a slice's stored samples times their scale, and copies them to x, and labels to target, unless
    None.

    x : (n, *in_shape). In the format EXACT bytes are packed without their scale, which is the inverse_scale of the
    factors.
    """
    stored = samples.stored
    columns = stored.size // len(stored)
    if stored.dtype not in TYPES:
        raise KernelError(f"samples are gathered from uint8 or float32, not from {stored.dtype}")
    kernel = owner.device.kernel(SOURCE, f"pack_samples<{kind.name}, {TYPES[stored.dtype]}>")
    arrays = stored, samples.scale, x, samples.labels, target, samples.order, samples.step
    numbers = part.n, columns, batch, part.offset
    return kernel.bind(_grid(part.n, columns, kind), 32 * WARPS, *arrays, *to.arguments(), *numbers)


def _grid(rows: int, columns: int, kind: PackedFormat) -> tuple[int, int]:
    """Grid of blocks of WARPS blocks of 32 x 32 numbers along the columns, up to whole records."""
    across, down = (ceil_div(size, kind.terms) * kind.terms for size in (columns, rows))
    return ceil_div(across, BLOCK * WARPS), down // BLOCK
