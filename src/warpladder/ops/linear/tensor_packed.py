"""Factors of products as tensor cores read them: the memory that packed matrices take, and the launch that packs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...device import Array, Launch
from ..kernels import OnDevice, ceil_div

SOURCE = Path(__file__).with_name("tensor_pack.cu")

#: Rows and columns that a warp packs, and so the terms of a line that have one scale; warps in a block that packs.
BLOCK, WARPS = 32, 4

#: Lines of a packed matrix are a multiple of this: as many as the largest tile has, so that no copy of a panel goes beyond the end.
LINES = 128

#: Words of 4 bytes in a record, which is what a step of a product takes of a line.
RECORD = 32


@dataclass(frozen=True)
class PackedFormat:
    """What a number becomes, as cu/tensor_packed.cuh has it.

    name : in the kernels.
    terms : numbers of a line in a record.
    work : what a product takes of tensor cores, in units of one in bf16.
    products : instructions for a product of two numbers.
    mma : terms that an instruction takes.
    scaled : whether each 32 numbers of a line have a power of two of their own.
    """

    name: str
    terms: int
    work: int
    products: int
    mma: int
    scaled: bool

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


class PackedFactor:
    """Memory for a matrix of up to `lines` lines of up to `terms` numbers each, as cu/tensor_packed.cuh lays it out.

    Attributes
    ----------
    lines : int
        Those that there is room for, a multiple of LINES.
    numbers : Array
        (records, lines, RECORD) uint32.
    undo : Array or None
        (terms / 32, lines) float32, what undoes the scales, in formats that have them.
    """

    def __init__(self, owner: OnDevice, lines: int, terms: int, kind: PackedFormat) -> None:
        self.lines, records = ceil_div(lines, LINES) * LINES, ceil_div(terms, kind.terms)
        self.numbers = owner.scratch((records, self.lines, RECORD), np.uint32)
        self.undo = owner.scratch((records * kind.scales, self.lines)) if kind.scaled else None
        for array in (self.numbers, self.undo) if self.undo is not None else (self.numbers,):
            owner.device.fill(array, 0)  # lines beyond the last one are multiplied as well, and nobody reads what comes out


def pack(
    owner: OnDevice, kind: PackedFormat, x: Array, rows: int, columns: int, along: PackedFactor | None, across: PackedFactor | None,
    y: Array | None = None, sums: Array | None = None,
) -> Launch:  # fmt: skip
    """Packs x (rows, columns) float32: `along` with rows as lines, `across` with columns as lines, either of which may be None.

    With y, of x's shape, a number counts as 0 where y is not above 0. sums: (row blocks of 32, columns), each column's sum over 32 rows.
    """
    grid = ceil_div(ceil_div(columns, kind.terms) * kind.terms, BLOCK * WARPS), ceil_div(rows, kind.terms) * kind.terms // BLOCK
    parts = [(factor.numbers, factor.undo, factor.lines) if factor is not None else (None, None, 0) for factor in (along, across)]
    kernel = owner.device.kernel(SOURCE, f"pack<{kind.name}>")
    return kernel.bind(grid, 32 * WARPS, x, y, *parts[0], *parts[1], sums, rows, columns)
