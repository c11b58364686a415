"""Buffers on large pages, aligned to cache lines.

A gradient's sums read a column of activations, a row a sample: on pages of 4 KB every row costs
an entry of the address cache, which holds 64. Large pages make the whole working set a few.
The memory is the process's own: to memory that could be shared with others Linux gives large pages only where an
administrator has said so.
"""

from __future__ import annotations

import math
import mmap

import numpy as np

LARGE = 2 << 20  # bytes of a large page on x86-64 and on arm64 with 4 KB base pages
LINE = 64  # bytes of a cache line


class Pages:
    """Hands out zeroed arrays from one block of memory of a stated size, in bytes."""

    def __init__(self, size: int) -> None:
        if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux; elsewhere ordinary pages do
            block = mmap.mmap(-1, size + LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            block.madvise(mmap.MADV_HUGEPAGE)
        else:
            block = mmap.mmap(-1, size + LARGE)
        whole = np.frombuffer(block, np.uint8)
        self._bytes = whole[-whole.ctypes.data % LARGE :]
        self._used = 0

    def array(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """A zeroed array that begins on a cache line."""
        size = room(shape, dtype)
        part = self._bytes[self._used : self._used + math.prod(shape) * np.dtype(dtype).itemsize]
        self._used += size
        return part.view(dtype).reshape(shape)


def room(shape: tuple[int, ...], dtype: type) -> int:
    """Bytes that an array takes, rounded up to whole cache lines and one more, so that equal sizes do not fall into the
    same cache sets.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return -(-size // LINE) * LINE + LINE
