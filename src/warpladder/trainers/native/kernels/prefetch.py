"""Asking memory for samples before they are read: shuffled ones lie where no hardware expects them.

A core keeps some dozen lines of memory under way at once, each for a hundred nanoseconds or more, and who asks for a
sample when
it is wanted waits. A step's last product needs nothing of memory: with every tile it asks for some lines of the next
step's samples::

    gather          ask for the sample AHEAD samples on, copy this one
    last gradient   tile | lines of the next batch | tile | lines of the next batch | ...
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..compiler.emit import I64, intrinsic
from ..compiler.functions import inner
from ..program.access import bytes_2d, cut, floats_2d, int64s
from ..program.job import NOTHING, OWN
from ..program.memory import F32, INDICES, U8
from ..threads.pages import LINE
from ..threads.sharing import share

AHEAD = 4  # samples between asking for one and reading it
FLOATS = LINE // 4  # float32 numbers of a cache line
FIRST, SECOND = 3, 2  # into which level of the caches, in LLVM's numbers


def _asking(level: int):  # type: ignore[no-untyped-def]
    @intrinsic
    def prefetch(typing, array, row, at):  # type: ignore[no-untyped-def]
        """Ask for the cache line at array[row, at] of a 2-D array, without waiting for it."""
        signature = types.void(array, types.int64, types.int64)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            view = context.make_array(signature.args[0])(context, builder, values[0])
            stride = cgutils.unpack_tuple(builder, view.strides)[0]
            itemsize = context.get_abi_sizeof(view.data.type.pointee)
            offset = builder.add(builder.mul(values[1], stride), builder.mul(values[2], I64(itemsize)))
            bytes_ = builder.bitcast(view.data, ir.IntType(8).as_pointer())
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [bytes_.type, i32, i32, i32])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [builder.gep(bytes_, [offset]), i32(0), i32(level), i32(1)])  # to read, data
            return context.get_dummy_value()

        return signature, emit

    return prefetch


prefetch, _prefetch_far = _asking(FIRST), _asking(SECOND)


@inner
def prefetch_sample(pixels_u8, pixels_f32, indices, sample, last, features):  # type: ignore[no-untyped-def]
    """Ask for a sample that is soon to be read. One of the two sources is empty."""
    if sample < last:
        if pixels_u8.shape[0] > 0:
            for at in range(0, features, LINE):
                prefetch(pixels_u8, indices[sample], at)
        else:
            for at in range(0, features, FLOATS):
                prefetch(pixels_f32, indices[sample], at)


@inner
def _line(pixels_u8, pixels_f32):  # type: ignore[no-untyped-def]
    """Numbers of a cache line, and numbers of a sample, in the source that is not empty."""
    return (LINE, pixels_u8.shape[1]) if pixels_u8.shape[0] > 0 else (FLOATS, pixels_f32.shape[1])


@inner
def next_samples(asks, memory, call, tiles):  # type: ignore[no-untyped-def]
    """Samples of the next step that a weight gradient prefetches: pixels as bytes and as floats, one of them empty,
    indices, and cache lines for each tile.

    asks : NOTHING, OWN or ALL. A range's last step, and full batches, have no next one. tiles : of this part of the
    weight gradient.
    """
    pixels_u8, pixels_f32, indices = bytes_2d(memory, U8), floats_2d(memory, F32), int64s(memory, INDICES, 0)
    first = call.first + call.n
    n = min(call.n, indices.shape[0] - first) if asks != NOTHING else 0
    begin, end = share(n, call.part, call.parts) if asks == OWN else (0, n)
    step, features = _line(pixels_u8, pixels_f32)
    lines = ((end - begin) * ((features + step - 1) // step) + tiles - 1) // max(1, tiles)
    return pixels_u8, pixels_f32, cut(indices, first + begin, end - begin), lines


@inner
def prefetch_lines(ahead, sample, at):  # type: ignore[no-untyped-def]
    """Ask for a tile's lines of `next_samples`, from element `at` of a sample on; returns where the next tile goes on."""
    pixels_u8, pixels_f32, indices, lines = ahead
    step, features = _line(pixels_u8, pixels_f32)
    for _ in range(lines):
        if sample < indices.shape[0]:
            if pixels_u8.shape[0] > 0:
                _prefetch_far(pixels_u8, indices[sample], at)
            else:
                _prefetch_far(pixels_f32, indices[sample], at)
            at += step
            if at >= features:
                at = 0
                sample += 1
    return sample, at
