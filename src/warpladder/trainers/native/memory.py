"""Where everything lies that a program reads and writes: arrays for Python, one table of addresses for compiled code.

An operation that took the arrays themselves would have more than a hundred arguments, since an array is seven numbers to the compiler, and
compiling would spend half its time on passing them. So it takes the table, and makes views of what it needs from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.np.arrayobj import populate_array

from .emit import I64, intrinsic, pointers


class Memory(NamedTuple):
    """Everything a program reads and writes.

    activations, gradients, winners : a row a share; threads that work together share row 0.
    packed : weights rearranged for this step (transposed, folded). offsets, scratch : a row a thread.
    u8, f32 : the samples' pixels; one of the two is empty. indices : the samples of the steps that run, in their order.
    """

    activations: np.ndarray  # (shares, floats) float32
    winners: np.ndarray  # (shares, numbers) int32
    gradients: np.ndarray  # (shares, parameters and folded gradients) float32
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

    def table(self) -> np.ndarray:
        """(arrays, 3) int64, flat: the address of each array, the length of its rows, and how many there are. It keeps no array alive."""
        entries = []
        for name, array in zip(self._fields, self, strict=True):
            if not array.flags.c_contiguous or array.dtype != TYPES[name]:
                raise TypeError(f"{name} is not C-contiguous {np.dtype(TYPES[name])}, which a program wants, but {array.dtype}")
            entries += [array.ctypes.data, array.shape[-1], array.shape[0] if array.ndim == 2 else 1]
        return np.array(entries, np.int64)


#: the type of each array's elements
TYPES: dict[str, type] = dict.fromkeys(Memory._fields, np.float32) | {
    "winners": np.int32, "offsets": np.int64, "sync": np.int64, "loss": np.float64,
    "correct": np.int64, "u8": np.uint8, "labels": np.int32, "indices": np.int64,
}  # fmt: skip

# an array's number in the table, for compiled code
(ACTIVATIONS, WINNERS, GRADIENTS, WEIGHTS, SLOTS, PACKED, OFFSETS, SCRATCH, SYNC, NUMBERS, LOSS, CORRECT, U8, F32, LABELS, INDICES) = range(
    len(Memory._fields)
)


def _view(context, builder, kind, data, shape):  # type: ignore[no-untyped-def]
    """A C-contiguous array over memory that somebody else keeps."""
    view = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [I64(size)] if len(shape) == 1 else [builder.mul(shape[1], I64(size)), I64(size)]
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=I64(size), meminfo=None)
    return view._getvalue()


def _rows_of(element):  # type: ignore[no-untyped-def]
    """An intrinsic (table, which, row): a row of an array of the table as a 1-D array; a 1-D array is row 0."""
    kind = types.Array(element, 1, "C")

    @intrinsic
    def row(typing, table, which, row):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            table, which, row = pointers(context, builder, signature, values)
            entry = builder.gep(table, [builder.mul(which, I64(3))])
            length = builder.load(builder.gep(entry, [I64(1)]))
            base = builder.inttoptr(builder.load(entry), context.get_data_type(element).as_pointer())
            return _view(context, builder, kind, builder.gep(base, [builder.mul(row, length)]), [length])

        return kind(table, types.int64, types.int64), emit

    return row


def _whole(element):  # type: ignore[no-untyped-def]
    """An intrinsic (table, which): all of a 2-D array of the table."""
    kind = types.Array(element, 2, "C")

    @intrinsic
    def whole(typing, table, which):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            table, which = pointers(context, builder, signature, values)
            entry = builder.gep(table, [builder.mul(which, I64(3))])
            shape = [builder.load(builder.gep(entry, [I64(i)])) for i in (2, 1)]
            return _view(context, builder, kind, builder.inttoptr(builder.load(entry), context.get_data_type(element).as_pointer()), shape)

        return kind(table, types.int64), emit

    return whole


floats = _rows_of(types.float32)
doubles = _rows_of(types.float64)
int32s = _rows_of(types.int32)
int64s = _rows_of(types.int64)
bytes_2d = _whole(types.uint8)
floats_2d = _whole(types.float32)


@intrinsic
def cut(typing, array, first, length):  # type: ignore[no-untyped-def]
    """array[first : first + length] of a C-contiguous array, without the clipping and turning of a slice."""
    kind = types.Array(array.dtype, 1, "C")

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        array, first, length = pointers(context, builder, signature, values)
        return _view(context, builder, kind, builder.gep(array, [first]), [length])

    return kind(array, types.int64, types.int64), emit
