"""Packed factors of products, as tensor cores read them: their memory, and the launch that packs them."""

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

#: Rows and columns that a warp packs, and so the terms of a line that have one scale; warps in a block that packs.
BLOCK, WARPS = 32, 4

#: Lines of a packed matrix are a multiple of this: as many as the largest tile has, so that no copy of a panel goes
#: beyond the end.
LINES = 128

#: How samples may be stored.
TYPES = {np.dtype(np.uint8): "unsigned char", np.dtype(np.float32): "float"}


@dataclass(frozen=True)
class PackedFormat:
    """What a number becomes, as device/include/tensor_packed.cuh has it.

    name : in the kernels.
    terms : numbers of a line in a record.
    work : what a product takes of tensor cores, in units of one in bf16.
    products : instructions for a product of two numbers.
    mma : terms that an instruction takes.
    scaled : whether 32 numbers of a line have a number that undoes their scale.
    record : words of 4 bytes in a record, which is what a step of a product takes of a line.
    """

    name: str
    terms: int
    work: int
    products: int
    mma: int
    scaled: bool
    record: int = 32

    @property
    def scales(self) -> int:
        """Powers of two for a line in a record."""
        return self.terms // BLOCK if self.scaled else 0


#: By the precision that products are asked for in.
FORMATS = {
    "fp32": PackedFormat("SPLIT", 32, 3, 3, 16, scaled=True),
    "tf32": PackedFormat("TF32", 32, 2, 1, 8, scaled=False),
    "bf16": PackedFormat("BF16", 64, 1, 1, 16, scaled=False),
    "fp16": PackedFormat("HALF", 64, 1, 1, 16, scaled=True),
}

#: Of bytes next to factors in two halves: whole numbers in one half each, whose common scale is applied to the sums.
EXACT = PackedFormat("EXACT", 32, 1, 1, 16, scaled=True, record=16)


@dataclass(frozen=True)
class Formats:
    """The formats of a product: of what it leaves packed, of A and of B. A or B may be EXACT where the product is of
    halves.
    """

    kind: PackedFormat
    a: PackedFormat
    b: PackedFormat

    @classmethod
    def alike(cls, kind: PackedFormat) -> Formats:
        return cls(kind, kind, kind)

    @property
    def name(self) -> str:
        """As template arguments of `multiply`."""
        return f"{self.kind.name}, {self.a.name}, {self.b.name}"

    @property
    def products(self) -> int:
        """Instructions for a product of two numbers: of an exact factor there is no low half."""
        return self.kind.products - (self.a is not self.kind) - (self.b is not self.kind)

    @property
    def work(self) -> float:
        """What a product takes of tensor cores, in units of one in bf16."""
        return self.kind.work * self.products / self.kind.products

    def words(self, bm: int, bn: int) -> int:
        """Words of the panels of bm lines of A and bn of B, without what undoes scales."""
        return bm * self.a.record + bn * self.b.record


class PackedFactor:
    """Memory for a matrix of up to `lines` lines of up to `terms` numbers each, as device/include/tensor_packed.cuh
    lays it out.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    lines, terms : int
    kind : PackedFormat
    scale : float32, optional
        In EXACT, what all numbers are to be multiplied by.

    Attributes
    ----------
    lines : int
        Those that there is room for, a multiple of LINES.
    numbers : Array
        (records, lines, words of a record) uint32.
    inverse_scale : Array or None
        (terms / 32, lines) float32, what undoes the scales, in formats that have them.
    """

    def __init__(
        self, owner: OnDevice, lines: int, terms: int, kind: PackedFormat, scale: np.float32 | None = None
    ) -> None:
        self.lines, records = ceil_div(lines, LINES) * LINES, ceil_div(terms, kind.terms)
        self.numbers = owner.scratch((records, self.lines, kind.record), np.uint32)
        self.inverse_scale = owner.scratch((records * kind.scales, self.lines)) if kind.scaled else None
        for array in (self.numbers, self.inverse_scale) if self.inverse_scale is not None else (self.numbers,):
            owner.device.fill(
                array, 0
            )  # lines beyond the last one are multiplied as well, and no launch reads their results
        if scale is not None:
            assert self.inverse_scale is not None
            owner.device.upload(self.inverse_scale, np.full(self.inverse_scale.shape, scale, np.float32))


@dataclass(frozen=True)
class Outlet:
    """Where a matrix (rows, columns) goes for what comes next: packed, and summed.

    along : with its rows as lines, for sums along them.
    across : with its columns as lines.
    sums : (row blocks of 32, columns), each column's sum over the 32 rows of a block.
    """

    along: PackedFactor | None = None
    across: PackedFactor | None = None
    sums: Array | None = None

    def arguments(self) -> tuple[Array | int | None, ...]:
        """The packed copies as kernels take them: numbers, inverse_scale and lines of each."""
        both = (self.along, self.across)
        return tuple(
            each
            for factor in both
            for each in (
                (factor.numbers, factor.inverse_scale, factor.lines) if factor is not None else (None, None, 0)
            )
        )


def pack(
    owner: OnDevice, kind: PackedFormat, x: Array, rows: int, columns: int, to: Outlet, y: Array | None = None
) -> Launch:
    """Packs x (rows, columns) float32; with y, of x's shape, a number counts as 0 where y is not above 0."""
    kernel = owner.device.kernel(SOURCE, f"pack<{kind.name}>")
    return kernel.bind(_grid(rows, columns, kind), 32 * WARPS, x, y, *to.arguments(), to.sums, rows, columns)


def pack_samples(
    owner: OnDevice, kind: PackedFormat, samples: StoredSamples, x: Array | None, target: Array | None, part: Slice,
    batch: int, to: Outlet
) -> Launch:  # fmt: skip
    """Packs a slice's samples from where they are stored, times their scale; they go to x (n, *in_shape) as well, and
    labels to target, where there are such.

    In EXACT bytes are packed without their scale, which the packed factors have had as their inverse_scale since they
    were made.
    """
    stored = samples.stored
    columns = stored.size // len(stored)
    if stored.dtype not in TYPES:
        raise KernelError(f"samples are gathered from uint8 or float32, not from {stored.dtype}")
    kernel = owner.device.kernel(SOURCE, f"pack_samples<{kind.name}, {TYPES[stored.dtype]}>")
    return kernel.bind(
        _grid(part.n, columns, kind), 32 * WARPS, stored, samples.scale, x, samples.labels, target, samples.order,
        samples.step, *to.arguments(),
        part.n, columns, batch, part.offset,
    )  # fmt: skip


def _grid(rows: int, columns: int, kind: PackedFormat) -> tuple[int, int]:
    """Blocks of 32 x 32 numbers, up to a whole record both ways, WARPS of them along the columns for each block of
    threads.
    """
    return ceil_div(ceil_div(columns, kind.terms) * kind.terms, BLOCK * WARPS), ceil_div(
        rows, kind.terms
    ) * kind.terms // BLOCK
