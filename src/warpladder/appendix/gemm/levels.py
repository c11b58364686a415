"""Levels in fp32 multiply-adds: each a kernel, its launch, and the share of the peak that its loads allow.

A multiprocessor of compute capability 8 or 9 starts four multiply-adds for a warp in a cycle, and loads 128 bytes from
its first-level cache or shared memory: one load of 32 neighbouring numbers. So a kernel with f multiply-adds for l
loads reaches at most f / (4 l) of the peak. Levels on tensor cores are in `tensor.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...device import Array, Device, Launch
from ...machine.peaks import CORES
from ...machine.precision import Precision, named
from ...ops.cost.plans import best
from ...ops.cost.tiles import gemm
from ...ops.engine.kernels import ceil_div

HERE = Path(__file__).parent
PIPELINED = HERE.parents[1] / "ops" / "linear" / "gemm.cu"


@dataclass(frozen=True)
class Level:
    """Level of the ladder: a kernel, its tile and its launch.

    name : name of the level and of its .cu file. idea : idea that the level adds. precision : precision of its proof
    and of the compared cuBLAS.
    loads : 128-byte loads of a warp per multiply-add, from cache or shared memory.
    tile : rows and columns of C per block. block : threads along x and y. unit : computing unit that multiplies.
    rows_first : True if the grid's x runs along the rows of C. multiple : required divisor of n and k.
    """

    name: str
    idea: str
    loads: float
    tile: tuple[int, int]
    block: tuple[int, int]
    rows_first: bool = False
    multiple: int = 1
    precision: ClassVar[Precision] = named("fp32")
    unit: ClassVar[str] = CORES

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.cu"

    @property
    def predicted(self) -> float:
        """Largest share of the peak that the level can reach, 0 to 1: 1 / (4 loads)."""
        return min(1.0, 1 / (4 * self.loads))

    def lacks(self, device: Device, n: int, k: int) -> str | None:
        """Reason why the level cannot run on a device, or with n columns and k terms; None if it can."""
        if n % self.multiple or k % self.multiple:
            return f"wants n and k to be multiples of {self.multiple}, and they are {n} and {k}"
        return None

    def stored(self, factor: np.ndarray) -> np.ndarray:
        """Factor, a float32 matrix, in the format that the level's kernel reads."""
        return factor

    def held(self, factor: np.ndarray) -> np.ndarray:
        """Factor, float32, with the rounding that the level applies before it multiplies."""
        return factor

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        """Launches of C = A B on a device, for arrays (m, k), (k, n) and (m, n), A and B in the format of `stored`."""
        (m, k), n = a.shape, b.shape[1]
        down, across = ceil_div(m, self.tile[0]), ceil_div(n, self.tile[1])
        grid = (down, across) if self.rows_first else (across, down)
        return [device.kernel(self.path, "sgemm").bind(grid, self.block, a, b, c, m, n, k)]


@dataclass(frozen=True)
class Pipelined(Level):
    """Level with the kernel of the gemm rung, and the tiles that this rung chooses for the size."""

    @property
    def path(self) -> Path:
        return PIPELINED

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, k), n = a.shape, b.shape[1]
        plan = best(gemm((m, n, k), device.limits))
        tile, parts = plan.tile, plan.parts
        kernel = device.kernel(PIPELINED, f"gemm<{tile}, 0, 4>")  # A along k, B across it by four
        blocks = ceil_div(m, tile.bm) * ceil_div(n, tile.bn)
        to = c if parts == 1 else device.empty((parts, m, n), what="parts of sums")
        found = [kernel.bind((blocks, parts), tile.threads, a, b, None, to, m, n, k, plan.depth, 0, shared=tile.shared)]
        if parts > 1:
            found.append(
                device.kernel(PIPELINED, "add_parts").bind(ceil_div(m * n, 256), 256, to, None, c, parts, m * n, n, 0)
            )
        return found


#: Levels in order: each adds an idea to the one before.
LEVELS: tuple[Level, ...] = (
    # A warp's 32 rows of A lie in 32 lines: 32 loads, and one of B.
    Level(
        "naive", "one thread for each number of C, neighbours below each other", 33, (32, 32), (32, 32), rows_first=True
    ),
    Level("coalesced", "neighbouring threads on neighbouring columns: a warp reads one line", 2, (32, 32), (32, 32)),
    Level("shared", "tiles in shared memory, each number used 32 times", 2, (32, 32), (32, 32)),
    Level("column", "eight numbers of C a thread: one of B in a register for eight of A", 9 / 8, (64, 64), (512, 1)),
    Level("square", "8 x 8 numbers of C a thread: sixteen loads for 64 multiply-adds", 16 / 64, (128, 128), (256, 1)),
    # Two lanes of a warp read each number of A, sixteen each of B: 2 x (1 + 2) loads of 128 bytes.
    Level(
        "wide", "four numbers at a time, from memory and from shared memory", 6 / 64, (128, 128), (256, 1), multiple=4
    ),
    Pipelined(
        "pipelined",
        "copies to shared memory run ahead, fragments are read ahead, warps own squares",
        6 / 64,
        (0, 0),
        (0, 0),
        multiple=4,
    ),
)
