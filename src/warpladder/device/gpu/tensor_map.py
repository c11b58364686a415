"""Tensor maps from the driver: matrices that a GPU's copy engine (TMA) copies to shared memory tile by tile."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda

from ...errors import LaunchError
from .. import Array
from ..tensormap import WORDS, axes
from .driver import call, error

if TYPE_CHECKING:
    from .device import GpuDevice

#: Constants of cuda.h: CUtensorMapDataType by bytes of a number, and the type whose floats are rounded to tf32 by the
#: copy; 128-byte swizzle; how the cache is filled.
KINDS, TF32 = {2: 1, 4: 7}, 11
PLAIN, SWIZZLE_128, CACHE_LINES_128, ZEROS = 0, 3, 2, 0
#: Alignment of a tensor map's address. The structure of cuda.bindings lacks it, and some processors stop there; hence
#: the driver's function is called with memory of our own.
ALIGNMENT = 64
#: CUDA version of the requested function.
SINCE = 12000


def encoded(device: GpuDevice, array: Array, columns: int, tile: tuple[int, ...], to_tf32: bool) -> np.ndarray:
    """Words of a tensor map, 16 of uint64.

    array : (rows, pitch), or (images, rows, columns, channels), of two or four bytes. columns : columns, or channels.
    tile : size along each of the array's axes; the last axis has 128 bytes. to_tf32 : True if the copy rounds floats to
    tf32. Raises LaunchError: the GPU is older than compute capability 9.0. Raises DeviceError: the driver returned an
    error.
    """
    if device.capability < (9, 0):
        major, minor = device.capability
        needed = "copies of tiles (TMA) need a GPU of compute capability 9.0 or later"
        raise LaunchError(f"{needed}, and {device.name} has {major}.{minor}")
    size = array.dtype.itemsize
    memory = np.zeros(WORDS + ALIGNMENT // 8, np.uint64)
    first = -memory.ctypes.data % ALIGNMENT // 8
    words = memory[first : first + WORDS]
    of, pitches = axes(array, columns)
    rank = len(of)
    sizes, pitch = (ctypes.c_uint64 * rank)(*of), (ctypes.c_uint64 * (rank - 1))(*pitches)
    box, every = (ctypes.c_uint32 * rank)(*tile[::-1]), (ctypes.c_uint32 * rank)(*(1,) * rank)
    device.enter()
    status = _encode()(
        words.ctypes.data, TF32 if to_tf32 else KINDS[size], rank, array.address, sizes, pitch, box, every,
        PLAIN, SWIZZLE_128, CACHE_LINES_128, ZEROS,
    )  # fmt: skip
    if status:
        raise error(cuda.CUresult(status), f"describe a matrix to the copy engine of {device.name}")
    return words.copy()


@cache
def _encode() -> Any:
    """Function cuTensorMapEncodeTiled of the driver."""
    address, _ = call(
        cuda.cuGetProcAddress, b"cuTensorMapEncodeTiled", SINCE, 0, doing="find the driver's cuTensorMapEncodeTiled"
    )
    number, pointer = ctypes.c_uint32, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, number, number, *[pointer] * 5, *[number] * 4)
    return kind(int(address))
