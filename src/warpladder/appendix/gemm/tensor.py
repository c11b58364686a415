"""Levels of the ladder on tensor cores, in order, and the list of all levels."""

from __future__ import annotations

from ...machine.precision import named
from .hopper import ByTiles, ByWarpgroups, Persistent, SplitPersistent, Transposed
from .levels import LEVELS, Level
from .tensor_level import ByWidth, Split, Stored16, TensorLevel


def _stage(itemsize: int, terms: int, rows: int, columns: int) -> int:
    """Bytes of a stage in shared memory: a tile of A, rows x terms numbers, and a tile of B, terms x columns.

    Rows are padded, so that they begin in different banks: by 16 bytes, rows of float32 of B by 32.
    """
    return itemsize * (rows * terms + terms * columns) + 16 * rows + (32 if itemsize == 4 else 16) * terms


def _ring(stages: int, rows: int, columns: int) -> int:
    """Bytes of a ring buffer for the copy engine: tiles with rows of 128 bytes, aligned to 1,024 bytes."""
    return stages * 128 * (rows + columns) + 1024


#: Levels in order: each adds an idea to the one before.
TENSOR_LEVELS: tuple[TensorLevel, ...] = (
    TensorLevel(
        "fragments", "tensor cores: a warp multiplies 16 x 16 by 16 x 8 at once", named("bf16"),
        tile=(128, 128), warp=(64, 32), copied=4, read=2, threads=256,
    ),
    Stored16(
        "ring", "factors stored in bf16: stages copied ahead, ldmatrix", named("bf16"),
        tile=(128, 256), warp=(64, 64), copied=2, read=2, threads=256, shared=3 * _stage(2, 64, 128, 256),
    ),
    ByTiles(
        "tma", "the copy engine brings tiles, a barrier counts their bytes", named("bf16"),
        tile=(128, 256), warp=(64, 64), copied=2, read=2, threads=256, shared=_ring(4, 128, 256),
    ),
    ByWarpgroups(
        "wgmma", "four warps multiply 64 x 256, from shared memory", named("bf16"),
        tile=(128, 256), warp=(64, 256), copied=2, read=2, threads=256, shared=_ring(4, 128, 256),
    ),
    Persistent(
        "specialised", "some warps request tiles, others multiply; persistent blocks", named("bf16"),
        tile=(128, 256), warp=(64, 256), copied=2, read=2, threads=384, shared=_ring(4, 128, 256),
    ),
    ByWidth(
        "ring_tf32", "a ring of stages in tf32, from floats in memory", named("tf32"),
        tile=(128, 256), warp=(64, 64), copied=4, read=4, threads=256, shared=3 * _stage(4, 32, 128, 256),
    ),
    Transposed(
        "specialised_tf32", "B transposed first, rounded by the copy engine", named("tf32"),
        tile=(128, 256), warp=(64, 256), copied=4, read=4, threads=384, shared=_ring(4, 128, 256),
    ),
    Split(
        "split", "two halves for a float, three products, sums in registers", named("fp32"),
        tile=(128, 128), warp=(64, 32), copied=4, read=4, threads=256, shared=3 * 2 * _stage(2, 32, 128, 128),
    ),
    SplitPersistent(
        "split_specialised", "three products from shared memory, sums of 64 terms", named("fp32"),
        tile=(128, 128), warp=(64, 128), copied=4, read=6, threads=384, shared=_ring(3, 2 * 128, 2 * 128),
    ),
)  # fmt: skip

AnyLevel = Level | TensorLevel

EVERY_LEVEL: tuple[AnyLevel, ...] = (*LEVELS, *TENSOR_LEVELS)

#: Every level, grouped by precision.
BY_PRECISION = {
    name: tuple(level for level in EVERY_LEVEL if level.precision.name == name) for name in ("fp32", "tf32", "bf16")
}
