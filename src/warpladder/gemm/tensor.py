"""The levels on tensor cores: each a kernel, how it is launched, and the share of the peak that it can reach.

Three things bound them, all counted for a multiprocessor of compute capability 9.0, an H100's or H200's:

- Its shared memory gives 128 bytes in a cycle. A warp that makes p x q numbers of C reads p + q numbers of fragments for the 2 p q FLOPs of a term.
- The second-level cache gives it 64 bytes in a cycle. A block that makes p x q numbers of C copies p + q numbers for the 2 p q FLOPs of a term.
- mma.sync, the instruction of a single warp, reaches 63 % of the peak there; the rest is kept for wgmma, that of four warps together
  (Luo et al., "Benchmarking and dissecting the Nvidia Hopper GPU architecture", arXiv:2402.13499). On Ampere it reaches all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..device import Array, Device, Launch
from ..ops.kernels import ceil_div
from ..peaks import RATES, SPLIT, TENSOR
from ..precision import Precision, named
from .formats import padded
from .levels import HERE, LEVELS, Level

#: Of the peak that mma.sync reaches on Hopper.
OF_WARPS = 0.63
#: Bytes that a multiprocessor gets in a cycle, from its shared memory and from the second-level cache.
SHARED_BYTES, CACHE_BYTES = 128, 64


@dataclass(frozen=True)
class TensorLevel:
    """A kernel of the ladder that multiplies on tensor cores.

    name : also of its .cu file.
    idea : what it adds.
    precision : what it is held to, and compared with cuBLAS in.
    tile, warp : rows and columns of C that a block makes, and a warp.
    copied, read : bytes of a factor's number where a block copies it from, and where a warp reads it; low halves are among them.
    threads : of a block.
    shared : bytes of dynamic shared memory.
    """

    name: str
    idea: str
    precision: Precision
    tile: tuple[int, int]
    warp: tuple[int, int]
    copied: int
    read: int
    threads: int
    shared: int = 0

    @property
    def unit(self) -> str:
        return TENSOR

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.cu"

    @property
    def predicted(self) -> float:
        """The share of the tensor cores' peak that it can reach on Hopper, 0 to 1."""
        rates = RATES[9, 0][TENSOR]
        rate = rates["fp16"] / SPLIT if self.precision.name == "fp32" else rates[self.precision.name]

        def fed(part: tuple[int, int], itemsize: int, gives: int) -> float:
            """The cycles that a term of so many rows and columns takes to multiply, for each that it takes to be brought."""
            rows, columns = part
            return 2 * rows * columns / rate / (itemsize * (rows + columns) / gives)

        return min(OF_WARPS, fed(self.warp, self.read, SHARED_BYTES), fed(self.tile, self.copied, CACHE_BYTES))

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Blocks along the columns and the rows of C."""
        return ceil_div(n, self.tile[1]), ceil_div(m, self.tile[0])

    def lacks(self, device: Device, n: int, k: int) -> str | None:
        """A line that says why the level cannot run on a device, or None."""
        peaks = device.limits.peaks
        return None if peaks is None else peaks.lacks("bf16")  # who has it has the shapes of the others too

    def stored(self, factor: np.ndarray) -> np.ndarray:
        """A factor, float32, as the level wants it to lie in memory."""
        return factor

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        """C = A B on a device, for arrays (m, k), (k, n) and (m, n), A and B as they are `stored`."""
        (m, n), k = c.shape, b.shape[0]
        return [device.kernel(self.path, self.kernel(n, k)).bind(self.grid(m, n), self.threads, a, b, c, m, n, k, shared=self.shared)]

    def kernel(self, n: int, k: int) -> str:
        """Which of the file's kernels makes C, for so many columns and terms."""
        return "product"


@dataclass(frozen=True)
class Stored16(TensorLevel):
    """A level whose factors lie in memory in bf16."""

    def stored(self, factor: np.ndarray) -> np.ndarray:
        return padded(factor)

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        pitches = a.shape[1], b.shape[1]
        return [device.kernel(self.path, "product").bind(self.grid(m, n), self.threads, a, b, c, m, n, k, *pitches, shared=self.shared)]


@dataclass(frozen=True)
class ByWidth(TensorLevel):
    """A level that copies four floats at a time where rows begin at multiples of 16 bytes, and else one."""

    def kernel(self, n: int, k: int) -> str:
        return f"product<{1 if n % 4 or k % 4 else 4}>"


@dataclass(frozen=True)
class Split(TensorLevel):
    """A level whose factors are split into two halves by launches of their own, which belong to its time."""

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        pitches = ceil_div(k, 8) * 8, ceil_div(n, 8) * 8
        of_a = [device.empty((m, pitches[0]), np.uint16, "halves of A") for _ in range(2)]
        of_b = [device.empty((k, pitches[1]), np.uint16, "halves of B") for _ in range(2)]
        scale_a, scale_b = device.empty((m,), np.int32, "exponents"), device.empty((n,), np.int32, "exponents")
        split_rows, split_columns, product = (device.kernel(self.path, name) for name in ("split_rows", "split_columns", "product"))
        return [
            split_rows.bind(m, 256, a, *of_a, scale_a, k, pitches[0]),
            split_columns.bind(ceil_div(n, 32), 256, b, *of_b, scale_b, k, n, pitches[1]),
            product.bind(self.grid(m, n), self.threads, *of_a, scale_a, *of_b, scale_b, c, m, n, k, *pitches, shared=self.shared),
        ]


def _stage(itemsize: int, terms: int, rows: int, columns: int) -> int:
    """Bytes of a stage in shared memory: a tile of A, rows x terms numbers, and one of B, terms x columns.

    Rows are longer than their numbers by as much as brings them to different banks: by 16 bytes, those of floats of B by 32.
    """
    return itemsize * (rows * terms + terms * columns) + 16 * rows + (32 if itemsize == 4 else 16) * terms


#: In the order in which each adds an idea to the one before.
TENSOR_LEVELS: tuple[TensorLevel, ...] = (
    TensorLevel(
        "fragments", "tensor cores: a warp multiplies 16 x 16 by 16 x 8 at once", named("bf16"),
        tile=(128, 128), warp=(64, 32), copied=4, read=2, threads=256,
    ),
    Stored16(
        "ring", "factors stored in bf16: stages copied ahead, ldmatrix", named("bf16"),
        tile=(128, 256), warp=(64, 64), copied=2, read=2, threads=256, shared=3 * _stage(2, 64, 128, 256),
    ),
    ByWidth(
        "ring_tf32", "the same in tf32, from floats as they lie in memory", named("tf32"),
        tile=(128, 256), warp=(64, 64), copied=4, read=4, threads=256, shared=3 * _stage(4, 32, 128, 256),
    ),
    Split(
        "split", "two halves for a float, three products, sums in registers", named("fp32"),
        tile=(128, 128), warp=(64, 32), copied=4, read=4, threads=256, shared=3 * 2 * _stage(2, 32, 128, 128),
    ),
)  # fmt: skip

AnyLevel = Level | TensorLevel

EVERY_LEVEL: tuple[AnyLevel, ...] = (*LEVELS, *TENSOR_LEVELS)

#: Every level, grouped by precision.
BY_PRECISION = {name: tuple(level for level in EVERY_LEVEL if level.precision.name == name) for name in ("fp32", "tf32", "bf16")}
