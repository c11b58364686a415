"""Samples of the data set, copied and scaled to activations, and predictions.

Hardware prefetchers do not predict shuffled samples, and a cache line takes a hundred nanoseconds or more. So a sample
is prefetched AHEAD samples before it is copied.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ..compiler.emit import emitted
from ..compiler.functions import inner
from ..program.access import activations_of, bytes_2d, floats_2d, indices_of, own_samples, place, reader, share
from ..program.memory import F32, LINE, U8
from ..program.operands import GatherOperands

AHEAD = 4  # samples between the prefetch of one and its copy

_read = reader(GatherOperands)


@emitted()
def prefetch(builder, rows, row, at):  # type: ignore[no-untyped-def]
    """Prefetch the cache line of rows[row, at] of a 2-D array into the first-level cache."""
    line = builder.bitcast(builder.gep(rows.data, [at]), ir.IntType(8).as_pointer())
    i32 = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [line.type, i32, i32, i32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    # to read, level 1, data
    builder.call(function, [builder.gep(line, [builder.mul(row, rows.stride)]), i32(0), i32(3), i32(1)])


@inner
def _prefetch_sample(pixels_u8, pixels_f32, indices, sample, last, features):  # type: ignore[no-untyped-def]
    """Prefetch a sample, if it is before `last`. One of the two arrays of pixels is empty."""
    if sample < last:
        if pixels_u8.shape[0] > 0:
            for at in range(0, features, LINE):
                prefetch(pixels_u8, indices[sample], at)
        else:
            for at in range(0, features, LINE // 4):
                prefetch(pixels_f32, indices[sample], at)


def gather(operands, memory, work):  # type: ignore[no-untyped-def]
    """Gather operation: images (channels, height, width) of the batch to channels-last, scaled."""
    it, indices, scale = _read(operands), indices_of(memory, work), work.settings.scale
    y, channels, target = it.y, it.channels, activations_of(memory, work)
    pixels_u8, pixels_f32 = bytes_2d(memory, U8), floats_2d(memory, F32)
    width, area, is_bytes = y.width, y.height * y.width, pixels_u8.shape[0] > 0
    first, last = own_samples(work)
    for sample in range(first, last):
        _prefetch_sample(pixels_u8, pixels_f32, indices, sample + AHEAD, last, channels * area)
        index = indices[sample]
        for row in range(y.height):
            start = place(y, sample, row, 0)
            if channels == 1 and y.pixel == 1:
                at = row * width
                if is_bytes:
                    _scale(pixels_u8[index, at : at + width], scale, target[start : start + width])
                else:
                    _scale(pixels_f32[index, at : at + width], scale, target[start : start + width])
            else:
                for channel in range(channels):
                    at = channel * area + row * width
                    for column in range(width):
                        value = (
                            np.float32(pixels_u8[index, at + column]) if is_bytes else pixels_f32[index, at + column]
                        )
                        target[start + column * y.pixel + channel] = value * scale
    return 0.0, 0.0


@inner
def _scale(line, scale, target):  # type: ignore[no-untyped-def]
    for i in range(target.shape[0]):
        target[i] = np.float32(line[i]) * scale


@inner
def copy_rows(y, features, shares, memory, work):  # type: ignore[no-untyped-def]
    """Copy `shares` threads' ranges of flat samples to rows of y: the thread's own range first, then the next ones."""
    pixels_u8, pixels_f32 = bytes_2d(memory, U8), floats_2d(memory, F32)
    indices, target, scale = indices_of(memory, work), activations_of(memory, work), work.settings.scale
    for i in range(shares):
        first, last = share(work.n, (work.part + i) % work.parts, work.parts)
        for sample in range(first, last):
            _prefetch_sample(pixels_u8, pixels_f32, indices, sample + AHEAD, last, features)
            start = place(y, sample, 0, 0)
            if pixels_u8.shape[0] > 0:
                _scale(pixels_u8[indices[sample]], scale, target[start : start + features])
            else:
                _scale(pixels_f32[indices[sample]], scale, target[start : start + features])


def gather_rows(operands, memory, work):  # type: ignore[no-untyped-def]
    """Gather operation of flat samples, scaled: the thread's share, or a private copy of the whole batch."""
    it = _read(operands)
    copy_rows(it.y, it.channels, work.parts if it.copies_all != 0 else 1, memory, work)
    return 0.0, 0.0


@inner
def read_out(source, x, channels, out, at, sample_range):  # type: ignore[no-untyped-def]
    """Copy channels-last images to rows of `out` (samples, features) in PyTorch's order; image 0 becomes row `at`."""
    area = x.height * x.width
    for sample in range(sample_range[0], sample_range[1]):
        for row in range(x.height):
            for column in range(x.width):
                start = place(x, sample, row, column)
                for channel in range(channels):
                    out[at + sample, channel * area + row * x.width + column] = source[start + channel]
