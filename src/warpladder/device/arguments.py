"""Arguments of a launch in host memory, in the driver's format: packed bytes, and a pointer to each argument."""

from __future__ import annotations

import ctypes
from itertools import accumulate
from typing import Any

import numpy as np

#: No type of C or of CUDA wants more than 16 bytes, but for a tensor map; with it a struct by value lies where its
#: members do.
ALIGNMENT = 64


def laid_out(packed: tuple[Any, ...]) -> tuple[np.ndarray, Any]:
    """Bytes of packed arguments, which the caller must keep alive, and an array of pointers, one to each argument."""
    contents = [(np.uint64(value) if isinstance(value, int) else value).tobytes() for value in packed]
    offsets = list(accumulate((-(-len(content) // ALIGNMENT) * ALIGNMENT for content in contents), initial=0))
    held = np.zeros(offsets[-1] + 2 * ALIGNMENT, np.uint8)
    first = -held.ctypes.data % ALIGNMENT
    for offset, content in zip(offsets, contents, strict=False):
        held[first + offset : first + offset + len(content)] = np.frombuffer(content, np.uint8)
    address = held.ctypes.data + first
    return held, (ctypes.c_void_p * len(offsets))(*(address + offset for offset in offsets))
