"""Level on tensor cores: a kernel, its launch, and the share of the peak that it can reach.

Three limits bound the levels (`tensor.py` lists them), for a multiprocessor of an H100 or H200 (9.0):

- Its shared memory gives 128 bytes in a cycle. A warp that makes p x q numbers of C reads p + q numbers of fragments
  for the 2 p q FLOPs of a term.
- The second-level cache gives it 64 bytes in a cycle. A block that makes p x q numbers of C copies p + q numbers for
  the 2 p q FLOPs of a term.
- mma.sync, the instruction of a single warp, reaches 63 % of the peak on Hopper, and all of it on Ampere; only wgmma of
  four warps reaches Hopper's peak (Luo et al., "Benchmarking and dissecting the Nvidia Hopper GPU architecture",
  arXiv:2402.13499). The warp above is then the warpgroup, which reads B once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...device import Array, Device, Launch
from ...machine.peaks import RATES, SPLIT, TENSOR
from ...machine.precision import Precision
from ...ops.engine.kernels import ceil_div
from .formats import held, padded
from .levels import HERE

#: Share of the peak that mma.sync reaches on Hopper.
OF_WARPS = 0.63
#: Bytes per cycle of a multiprocessor, from its shared memory and from the second-level cache.
SHARED_BYTES, CACHE_BYTES = 128, 64


@dataclass(frozen=True)
class TensorLevel:
    """Level on tensor cores: a kernel, its tiles and its launch.

    name : name of the level and of its .cu file. idea : idea that the level adds. precision : precision of its proof
    and of the compared cuBLAS.
    tile, warp : rows and columns of C per block, and per warp or warpgroup.
    copied, read : bytes of a factor's number where a block copies it, and where a warp reads it, low halves included.
    threads : threads of a block. shared : bytes of dynamic shared memory.
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

    #: Share of the peak that the level's instruction reaches on Hopper.
    reach: ClassVar[float] = OF_WARPS

    @property
    def unit(self) -> str:
        return TENSOR

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.cu"

    @property
    def predicted(self) -> float:
        """Share of the tensor cores' peak that the level can reach on Hopper, 0 to 1."""
        rates = RATES[9, 0][TENSOR]
        rate = rates["fp16"] / SPLIT if self.precision.name == "fp32" else rates[self.precision.name]

        def fed(part: tuple[int, int], itemsize: int, gives: int) -> float:
            """Cycles of the multiplications of one term over the cycles that load its rows and columns."""
            rows, columns = part
            return 2 * rows * columns / rate / (itemsize * (rows + columns) / gives)

        return min(self.reach, fed(self.warp, self.read, SHARED_BYTES), fed(self.tile, self.copied, CACHE_BYTES))

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Grid of blocks: number along the columns and along the rows of C."""
        return ceil_div(n, self.tile[1]), ceil_div(m, self.tile[0])

    def lacks(self, device: Device, n: int, k: int) -> str | None:
        """Reason why the level cannot run on a device, or None."""
        peaks = device.limits.peaks
        return None if peaks is None else peaks.lacks("bf16")  # a GPU with bf16 has the shapes of the other formats too

    def stored(self, factor: np.ndarray) -> np.ndarray:
        """Factor, a float32 matrix, in the format that the level's kernel reads."""
        return factor

    def held(self, factor: np.ndarray) -> np.ndarray:
        """Factor, float32, with the rounding that the level applies before it multiplies."""
        return held(factor, self.precision)

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        """Launches of C = A B on a device, for arrays (m, k), (k, n) and (m, n), A and B in the format of `stored`."""
        (m, n), k = c.shape, b.shape[0]
        return [self.launch(device, self.grid(m, n), a, b, c, m, n, k, kernel=self.kernel(n, k))]

    def launch(self, device: Device, blocks: tuple[int, int], *arguments: object, kernel: str = "product") -> Launch:
        """Launch of a kernel of the level's file, with the level's threads and shared memory."""
        return device.kernel(self.path, kernel).bind(blocks, self.threads, *arguments, shared=self.shared)

    def kernel(self, n: int, k: int) -> str:
        """Name of the kernel in the level's file for n columns and k terms."""
        return "product"


@dataclass(frozen=True)
class Stored16(TensorLevel):
    """Level with factors stored in bf16."""

    def stored(self, factor: np.ndarray) -> np.ndarray:
        return padded(factor)

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        return [self.launch(device, self.grid(m, n), a, b, c, m, n, k, a.shape[1], b.shape[1])]


@dataclass(frozen=True)
class ByWidth(TensorLevel):
    """Level that copies four floats at a time if rows begin at multiples of 16 bytes, else one float at a time."""

    def kernel(self, n: int, k: int) -> str:
        return f"product<{1 if n % 4 or k % 4 else 4}>"


@dataclass(frozen=True)
class Split(TensorLevel):
    """Level that splits its factors into halves in separate launches, whose time is included."""

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        splits, halves = split(device, a, b)
        pitches = halves[0].shape[1], halves[3].shape[1]
        return [*splits, self.launch(device, self.grid(m, n), *halves, c, m, n, k, *pitches)]


def split(device: Device, a: Array, b: Array) -> tuple[list[Launch], list[Array]]:
    """Launches that split the factors A (m, k) and B (k, n) into halves, and the arrays that they fill.

    Arrays in the order of the kernel's arguments: A's high and low halves, (m, pitch) uint16, and the exponents of its
    rows, (m,) int32; B's halves, (k, pitch), and the exponents of its columns, (n,). A pitch is a multiple of 8;
    padding is not filled.
    """
    (m, k), n = a.shape, b.shape[1]
    pitches = ceil_div(k, 8) * 8, ceil_div(n, 8) * 8
    of_a = [device.empty((m, pitches[0]), np.uint16, "halves of A") for _ in range(2)]
    of_b = [device.empty((k, pitches[1]), np.uint16, "halves of B") for _ in range(2)]
    exponents_a, exponents_b = device.empty((m,), np.int32, "exponents"), device.empty((n,), np.int32, "exponents")
    rows, columns = (device.kernel(HERE / "split.cu", name) for name in ("split_rows", "split_columns"))
    launches = [
        rows.bind(m, 256, a, *of_a, exponents_a, k, pitches[0]),
        columns.bind(ceil_div(n, 32), 1024, b, *of_b, exponents_b, k, n, pitches[1]),
    ]
    return launches, [*of_a, exponents_a, *of_b, exponents_b]
