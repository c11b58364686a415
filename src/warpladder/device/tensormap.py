"""`TensorMap`: a matrix in a device's memory and its tiles, in the format of a GPU's copy engine (TMA)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import LaunchError
from .array import Array

#: Bytes of a tile's row: the copy engine deals its eight pieces of 16 bytes out to different banks (128-byte swizzle).
ROW = 128
#: Rows of a tile, at most; and what addresses and the distance of a matrix's rows are multiples of, in bytes.
MOST_ROWS, ALIGNED = 256, 16
#: 64-bit words of a tensor map, as a kernel takes it by value: `const __grid_constant__ TensorMap` of
#: device/include/bulk.cuh.
WORDS = 16


@dataclass(frozen=True, eq=False)
class TensorMap:
    """Tensor map of a matrix for a kernel that copies tiles, from `Device.tensor_map`.

    array : matrix (rows, pitch), or (images, rows, columns, channels), which the map keeps alive.
    columns : columns, or channels of a pixel, that belong to the matrix; others are copied as zeros, as beyond an edge.
    tile : (rows, columns), or (images, rows, columns, channels). to_tf32 : True if floats are rounded to tf32.
    words : (16,) uint64, map in the device's own format.
    """

    array: Array
    columns: int
    tile: tuple[int, ...]
    to_tf32: bool
    words: np.ndarray


def axes(array: Array, columns: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of an array's axes, the last first, and bytes between neighbours along each axis but the last."""
    sizes = columns, *array.shape[-2::-1]
    return sizes, tuple(array.dtype.itemsize * math.prod(array.shape[-axis:]) for axis in range(1, len(array.shape)))


def check_map(array: Array, columns: int, rows: tuple[int, ...], to_tf32: bool) -> None:
    """Raise `LaunchError` if the copy engine cannot copy tiles of these rows, or (images, rows, columns)."""
    size = array.dtype.itemsize
    reason = ""
    if len(rows) == 3 and (len(array.shape) != 4 or not array.size):
        reason = f"images (images, rows, columns, channels) are wanted, got an array of shape {array.shape}"
    elif len(rows) != 3 and (len(array.shape) != 2 or not array.size):
        reason = f"a matrix with rows and columns is wanted, got an array of shape {array.shape}"
    elif size not in (2, 4) or array.dtype.kind not in "uf":
        reason = f"numbers of 16 or 32 bits are wanted, got {array.dtype}"
    elif to_tf32 and array.dtype != np.float32:
        reason = f"only floats are rounded to tf32, got {array.dtype}"
    elif array.address % ALIGNED or array.shape[-1] * size % ALIGNED:
        reason = (
            f"rows have to begin at multiples of {ALIGNED} bytes, and they are {array.shape[-1] * size} long, "
            f"from address {array.address:#x} on"
        )
    elif not 1 <= columns <= array.shape[-1]:
        reason = f"{columns} columns of {array.shape[-1]}"
    elif min(rows) < 1 or math.prod(rows) > MOST_ROWS:
        reason = f"a tile has 1 to {MOST_ROWS} rows, got {' x '.join(map(str, rows))}"
    if reason:
        raise LaunchError(f"there is no tensor map for this matrix: {reason}")
