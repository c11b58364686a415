"""`TensorMap`: a matrix in a device's memory as the copy engine of a GPU (TMA) knows it, and how large the tiles are
that it copies.
"""

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
    """What a kernel is given to ask for tiles of a matrix; `Device.tensor_map` makes it.

    array : the matrix, (rows, pitch), or images, (images, rows, columns, channels); a map keeps it alive.
    columns : how many numbers of a row, or channels of a pixel, belong to the matrix; the copy engine gives zeros for
    the others, as beyond every edge.
    tile : rows and columns of a tile; of images (images, rows, columns, channels).
    to_tf32 : whether floats are rounded to tf32 on the way.
    words : (16,) uint64, in the device's own format.
    """

    array: Array
    columns: int
    tile: tuple[int, ...]
    to_tf32: bool
    words: np.ndarray


def axes(array: Array, columns: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of an array's axes as the copy engine counts them, the last axis first, and for each but that one the
    bytes from one to the next.
    """
    sizes = columns, *array.shape[-2::-1]
    return sizes, tuple(array.dtype.itemsize * math.prod(array.shape[-axis:]) for axis in range(1, len(array.shape)))


def check_map(array: Array, columns: int, rows: tuple[int, ...], to_tf32: bool) -> None:
    """Raise `LaunchError` where the copy engine cannot copy tiles of so many rows, or images, rows and columns, from an
    array.

    Of the array's last axis so many columns belong to the matrix.
    """
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
