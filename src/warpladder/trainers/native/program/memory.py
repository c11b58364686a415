"""Where everything lies that a program reads and writes: arrays for Python, one table of addresses for compiled code.

An operation that took the arrays themselves would have more than a hundred arguments, since an array is seven numbers
to the compiler, and compiling would spend half its time on passing them. So it takes the table, and makes views of what
it needs from it (arrays.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Memory(NamedTuple):
    """Everything a program reads and writes.

    activations, gradients, subtotals, winners : a row a share; threads that work together share row 0.
    packed : weights rearranged for this step (transposed, folded). offsets, scratch : a row a thread.
    u8, f32 : the samples' pixels; one of the two is empty. indices : the samples of the steps that run, in their order.
    """

    activations: np.ndarray  # (shares, floats) float32
    winners: np.ndarray  # (shares, numbers) int32
    gradients: np.ndarray  # (shares, parameters and folded gradients) float32
    subtotals: np.ndarray  # as `gradients`: those of the blocks before, where there are more than SUMMED; else (1,)
    weights: np.ndarray  # (parameters,) float32
    slots: np.ndarray  # (slots * parameters,) float32: the optimizer's, one after the other
    packed: np.ndarray  # (floats,) float32
    offsets: np.ndarray  # (threads, entries of the offset tables) int64
    scratch: np.ndarray  # (threads, floats) float32
    sync: np.ndarray  # (16,) int64
    numbers: np.ndarray  # (steps, NUMBERS) float32: what each step's update is made with, as the optimizer lays it out
    loss: np.ndarray  # (threads, steps) float64
    correct: np.ndarray  # (threads, steps) int64
    u8: np.ndarray  # (samples, features) uint8
    f32: np.ndarray  # (samples, features) float32
    labels: np.ndarray  # (samples,) int32
    indices: np.ndarray  # (samples of all steps,) int64
    # (2,) float32: what a stored sample is multiplied by; the limit of a gradient's elements, infinite for no clipping
    factors: np.ndarray
    out: np.ndarray  # (samples, features) float32: predictions

    def table(self) -> np.ndarray:
        """(arrays, 3) int64, flat: the address of each array, the length of its rows, and how many there are. It keeps
        no array alive.
        """
        entries = []
        for name, array in zip(self._fields, self, strict=True):
            if not array.flags.c_contiguous or array.dtype != TYPES[name]:
                raise TypeError(
                    f"{name} is not C-contiguous {np.dtype(TYPES[name])}, which a program wants, but {array.dtype}"
                )
            entries += [array.ctypes.data, array.shape[-1], array.shape[0] if array.ndim == 2 else 1]
        return np.array(entries, np.int64)


#: the type of each array's elements
TYPES: dict[str, type] = dict.fromkeys(Memory._fields, np.float32) | {
    "winners": np.int32, "offsets": np.int64, "sync": np.int64, "loss": np.float64,
    "correct": np.int64, "u8": np.uint8, "labels": np.int32, "indices": np.int64,
}  # fmt: skip

# an array's number in the table, for compiled code
(
    ACTIVATIONS,
    WINNERS,
    GRADIENTS,
    SUBTOTALS,
    WEIGHTS,
    SLOTS,
    PACKED,
    OFFSETS,
    SCRATCH,
    SYNC,
    NUMBERS,
    LOSS,
    CORRECT,
    U8,
    F32,
    LABELS,
    INDICES,
    FACTORS,
    OUT,
) = range(len(Memory._fields))
