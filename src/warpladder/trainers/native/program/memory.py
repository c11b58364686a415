"""Memory of a program: arrays for Python, one table of their addresses for compiled code, and their pages.

The compiler sees an array as seven numbers: operations with all arrays as arguments would have more than a hundred, and
passing them would be half of the time of compilation. An operation creates the arrays that it needs from the table
(access.py).
"""

from __future__ import annotations

import math
import mmap
from typing import NamedTuple

import numpy as np


class NativeMemory(NamedTuple):
    """Arrays of a program's memory.

    activations, gradients, subtotals, argmax : a row for each share of the batch; threads that work together share row
    0. packed : weights transposed and folded for this step. offsets, scratch : a row for each thread.
    u8, f32 : pixels of the samples; one of the two is empty. indices : samples of the running steps, in order.
    """

    activations: np.ndarray  # (shares, floats) float32
    argmax: np.ndarray  # (shares, numbers) int32
    gradients: np.ndarray  # (shares, parameters and folded gradients) float32
    subtotals: np.ndarray  # as `gradients`: sums of earlier groups of SUMMED blocks; (1,) without any
    weights: np.ndarray  # (parameters,) float32
    slots: np.ndarray  # (slots * parameters,) float32: the optimizer's, one after the other
    packed: np.ndarray  # (floats,) float32
    offsets: np.ndarray  # (threads, entries of the offset tables) int64
    scratch: np.ndarray  # (threads, floats) float32
    statistics: np.ndarray  # (4 * channels of all normalisations,) float64, see kernels/batch_norm.py
    buffers: np.ndarray  # (buffers,) float32: running means and variances
    squares: np.ndarray  # (threads, cache line) float64: the sum of each part's squared gradients, and zeros
    sync: np.ndarray  # (16,) int64
    numbers: np.ndarray  # (steps, NUMBERS) float32: the optimizer's numbers of each step
    loss: np.ndarray  # (threads, steps) float64
    correct: np.ndarray  # (threads, steps) int64
    u8: np.ndarray  # (samples, features) uint8
    f32: np.ndarray  # (samples, features) float32
    starts: np.ndarray  # (samples, blocks + 1) int64: first entry of each block of a sample's list, and of the next one
    entries: np.ndarray  # (2 * entries,) int32: place of an entry in a block of weights, and the bits of its float32
    labels: np.ndarray  # (samples,) int32
    targets: np.ndarray  # (samples, outputs) float32
    indices: np.ndarray  # (samples of all steps,) int64
    factors: np.ndarray  # (2,) float32: `StepScaling.scale` and `clip`
    shares: np.ndarray  # (samples of all steps,) float32: shares of the samples in the means of their batches
    settings: np.ndarray  # (outputs,) float32: weights of classes, or numbers of the loss's function for each output
    out: np.ndarray  # (samples, features) float32: predictions

    def table(self) -> np.ndarray:
        """Table (arrays * 3,) int64: address, length of a row, number of rows of each array. It owns no array."""
        entries = []
        for name, array in zip(self._fields, self, strict=True):
            if not array.flags.c_contiguous or array.dtype != TYPES[name]:
                wanted = np.dtype(TYPES[name])
                raise TypeError(f"{name} must be a C-contiguous array of {wanted}, not one of {array.dtype}")
            entries += [array.ctypes.data, array.shape[-1], array.shape[0] if array.ndim == 2 else 1]
        return np.array(entries, np.int64)


#: the type of each array's elements
TYPES: dict[str, type] = dict.fromkeys(NativeMemory._fields, np.float32) | {
    "argmax": np.int32, "offsets": np.int64, "statistics": np.float64, "squares": np.float64, "sync": np.int64,
    "loss": np.float64, "correct": np.int64, "u8": np.uint8, "starts": np.int64,
    "entries": np.int32, "labels": np.int32, "indices": np.int64,
}  # fmt: skip

# an array's number in the table, for compiled code
(ACTIVATIONS, ARGMAX, GRADIENTS, SUBTOTALS, WEIGHTS, SLOTS, PACKED, OFFSETS, SCRATCH, STATISTICS, BUFFERS, SQUARES,
 SYNC, NUMBERS, LOSS, CORRECT, U8, F32, STARTS, ENTRIES, LABELS, TARGETS, INDICES, FACTORS, SHARES,
 SETTINGS, OUT) = range(len(NativeMemory._fields))  # fmt: skip

LARGE = 2 << 20  # bytes of a large page on x86-64 and on arm64 with 4 KB base pages
LINE = 64  # bytes of a cache line


class Pages:
    """Allocator of zeroed arrays from one block of `size` bytes on large pages.

    A gradient's sums read a column of activations, a row a sample: each row costs an entry of the address cache, which
    holds 64 pages, of 4 KB or large. The memory is private: Linux gives shared memory large pages only if an
    administrator allows it.
    """

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
        """Zeroed array that begins on a cache line."""
        size = padded_bytes(shape, dtype)
        part = self._bytes[self._used : self._used + math.prod(shape) * np.dtype(dtype).itemsize]
        self._used += size
        return part.view(dtype).reshape(shape)


def padded_bytes(shape: tuple[int, ...], dtype: type) -> int:
    """Bytes of an array in whole cache lines, and one more line, so that equal arrays do not share cache sets."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return -(-size // LINE) * LINE + LINE
