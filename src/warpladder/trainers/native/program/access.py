"""Views of a program's memory for compiled code, made from the table of addresses that `Memory.table` gives."""

from __future__ import annotations

from numba import types
from numba.np.arrayobj import populate_array

from ..compiler.emit import I64, intrinsic, pointers


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
            return _view(
                context,
                builder,
                kind,
                builder.inttoptr(builder.load(entry), context.get_data_type(element).as_pointer()),
                shape,
            )

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


@intrinsic
def numbers_at(typing, address, length):  # type: ignore[no-untyped-def]
    """The int64 numbers at an address, as a 1-D array."""
    kind = types.Array(types.int64, 1, "C")

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        data = builder.inttoptr(values[0], I64.as_pointer())
        return _view(context, builder, kind, data, [values[1]])

    return kind(types.int64, types.int64), emit
