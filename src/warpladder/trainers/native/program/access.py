"""Access to a program from compiled code: operands by name, arrays of the memory's table, a thread's share of work."""

from __future__ import annotations

from itertools import count
from typing import Any, get_type_hints

from numba import types
from numba.np.arrayobj import populate_array

from ..compiler.emit import I64, intrinsic
from ..compiler.functions import inner
from .memory import ACTIVATIONS, GRADIENTS, INDICES, NUMBERS, OFFSETS, WEIGHTS
from .tensors import ActivationView

#: an `ActivationView` of compiled code
VIEW = types.NamedUniTuple(types.int64, len(ActivationView._fields), ActivationView)


def _data(context, builder, kind, value):  # type: ignore[no-untyped-def]
    """Pointer to an array's data."""
    return context.make_array(kind)(context, builder, value).data


def _view(context, builder, kind, data, shape):  # type: ignore[no-untyped-def]
    """C-contiguous array over memory that it does not own."""
    view = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [I64(size)] if len(shape) == 1 else [builder.mul(shape[1], I64(size)), I64(size)]
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=I64(size), meminfo=None)
    return view._getvalue()


def _rows_of(element):  # type: ignore[no-untyped-def]
    """Intrinsic (table, which, row): a row of an array of the table as a 1-D array; a 1-D array is row 0."""
    kind = types.Array(element, 1, "C")

    @intrinsic
    def row(typing, table, which, row):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            _, which, row = values
            entry = builder.gep(_data(context, builder, table, values[0]), [builder.mul(which, I64(3))])
            length = builder.load(builder.gep(entry, [I64(1)]))
            base = builder.inttoptr(builder.load(entry), context.get_data_type(element).as_pointer())
            return _view(context, builder, kind, builder.gep(base, [builder.mul(row, length)]), [length])

        return kind(table, types.int64, types.int64), emit

    return row


def _whole(element):  # type: ignore[no-untyped-def]
    """Intrinsic (table, which) that returns array number `which` of the table as a 2-D array of `element`."""
    kind = types.Array(element, 2, "C")

    @intrinsic
    def whole(typing, table, which):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            entry = builder.gep(_data(context, builder, table, values[0]), [builder.mul(values[1], I64(3))])
            shape = [builder.load(builder.gep(entry, [I64(i)])) for i in (2, 1)]
            return _view(
                context, builder, kind,
                builder.inttoptr(builder.load(entry), context.get_data_type(element).as_pointer()), shape,
            )  # fmt: skip

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
    """Part array[first : first + length] of a C-contiguous array, without a slice's clipping and negative indices."""
    kind = types.Array(array.dtype, 1, "C")

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        first = builder.gep(_data(context, builder, array, values[0]), [values[1]])
        return _view(context, builder, kind, first, [values[2]])

    return kind(array, types.int64, types.int64), emit


@intrinsic
def numbers_at(typing, address, length):  # type: ignore[no-untyped-def]
    """Array of the `length` int64 numbers at an address."""
    kind = types.Array(types.int64, 1, "C")

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        data = builder.inttoptr(values[0], I64.as_pointer())
        return _view(context, builder, kind, data, [values[1]])

    return kind(types.int64, types.int64), emit


def reader(operands: type) -> Any:
    """Intrinsic (row) that returns an instruction's int64 row as the NamedTuple `operands`, see operands.py."""
    fields = [VIEW if hint is ActivationView else types.int64 for hint in get_type_hints(operands).values()]
    result = types.BaseTuple.from_types(fields, operands)

    @intrinsic
    def read(typing, row):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            base, places = _data(context, builder, row, values[0]), count()

            def number() -> Any:
                return builder.load(builder.gep(base, [I64(next(places))]))

            def view() -> Any:
                return context.make_tuple(builder, VIEW, [number() for _ in ActivationView._fields])

            return context.make_tuple(builder, result, [view() if kind is VIEW else number() for kind in fields])

        return result(row), emit

    return read


@inner
def place(view, sample, row, column):  # type: ignore[no-untyped-def]
    """Index of the first channel of pixel (sample, row, column) in its buffer."""
    return view.offset + sample * view.sample + row * view.row + column * view.pixel


@inner
def share(total, part, parts):  # type: ignore[no-untyped-def]
    """Range `part` of `parts` nearly equal ranges of 0..total-1, as (first, last + 1); the first ones are larger."""
    size, rest = divmod(total, parts)
    first = part * size + min(part, rest)
    return first, first + size + (1 if part < rest else 0)


@inner
def own_samples(work):  # type: ignore[no-untyped-def]
    """First sample, and the one after the last, of the thread's share of a block."""
    return share(work.n, work.part, work.parts)


@inner
def rows_and_panels(rows, panels, by_panel, work):  # type: ignore[no-untyped-def]
    """Ranges of rows (or tiles, or samples) and of panels of a product for a thread: its share of panels and all rows,
    or its share of rows and all panels.
    """
    own = share(panels if by_panel != 0 else rows, work.part, work.parts)
    return ((0, rows), own) if by_panel != 0 else (own, (0, panels))


@inner
def activations_of(memory, work):  # type: ignore[no-untyped-def]
    return floats(memory, ACTIVATIONS, work.slot)


@inner
def indices_of(memory, work):  # type: ignore[no-untyped-def]
    """Indices (n,) int64 of a block's samples in the data set."""
    return cut(int64s(memory, INDICES, 0), work.first, work.n)


@inner
def offsets_of(memory, work):  # type: ignore[no-untyped-def]
    """Offset tables (entries,) int64 of the thread."""
    return int64s(memory, OFFSETS, work.thread)


@inner
def gradient_target(memory, work, steps_weights):  # type: ignore[no-untyped-def]
    """Destination of a weight gradient: the share's gradients, or the weights that SGD updates at once."""
    return floats(memory, WEIGHTS if steps_weights else GRADIENTS, 0 if steps_weights else work.slot)


@inner
def sgd_numbers(memory, work):  # type: ignore[no-untyped-def]
    """Rate, clip and decay of SGD, float32, for gradients that update the weights at once."""
    numbers = floats(memory, NUMBERS, work.step)
    return numbers[0], work.settings.clip, numbers[3]
