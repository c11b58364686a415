"""Everything that moves or compares activations instead of multiplying them. Views are described in views.py."""

from __future__ import annotations

import numpy as np
from numba import types

from ..compiler.emit import I64, intrinsic, pointers
from ..compiler.functions import inner
from ..compiler.lines import turned
from ..compiler.vectors import LANES
from ..program.views import CHANNELS, HEIGHT, OFFSET, PIXEL, ROW, SAMPLE, WIDTH_
from .max_pool import largest, largest_of_four, to_one_of_four, to_winner
from .prefetch import AHEAD, prefetch_sample


@intrinsic
def place(typing, view, sample, row, column):  # type: ignore[no-untyped-def]
    """Where a pixel's channels begin: an offset of the view, and strides along its sample, row and column."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        view, *indices = pointers(context, builder, signature, values)
        at = builder.load(builder.gep(view, [I64(OFFSET)]))
        for field, index in zip((SAMPLE, ROW, PIXEL), indices, strict=True):
            at = builder.add(at, builder.mul(index, builder.load(builder.gep(view, [I64(field)]))))
        return at

    return types.int64(view, types.int64, types.int64, types.int64), emit


@inner
def gather(pixels_u8, pixels_f32, indices, scale, target, y, channels, first, last):  # type: ignore[no-untyped-def]
    """y[first:last] = pixels[indices] * scale, from (channels, height, width) to channels-last. One of the two sources
    is empty.
    """
    area = y[HEIGHT] * y[WIDTH_]
    bytes_ = pixels_u8.shape[0] > 0
    for sample in range(first, last):
        prefetch_sample(pixels_u8, pixels_f32, indices, sample + AHEAD, last, channels * area)
        index = indices[sample]
        for row in range(y[HEIGHT]):
            start = place(y, sample, row, 0)
            if channels == 1 and y[PIXEL] == 1:
                out = target[start : start + y[WIDTH_]]
                at = row * y[WIDTH_]
                if bytes_:
                    line = pixels_u8[index, at : at + y[WIDTH_]]
                    for column in range(y[WIDTH_]):
                        out[column] = np.float32(line[column]) * scale
                else:
                    floats = pixels_f32[index, at : at + y[WIDTH_]]
                    for column in range(y[WIDTH_]):
                        out[column] = floats[column] * scale
            else:
                for channel in range(channels):
                    at = channel * area + row * y[WIDTH_]
                    for column in range(y[WIDTH_]):
                        value = np.float32(pixels_u8[index, at + column]) if bytes_ else pixels_f32[index, at + column]
                        target[start + column * y[PIXEL] + channel] = value * scale


@inner
def gather_rows(pixels_u8, pixels_f32, indices, scale, target, y, features, first, last):  # type: ignore[no-untyped-def]
    """y[first:last] = pixels[indices] * scale for flat samples."""
    bytes_ = pixels_u8.shape[0] > 0
    for sample in range(first, last):
        prefetch_sample(pixels_u8, pixels_f32, indices, sample + AHEAD, last, features)
        start = place(y, sample, 0, 0)
        out = target[start : start + features]
        if bytes_:
            line = pixels_u8[indices[sample]]
            for i in range(features):
                out[i] = np.float32(line[i]) * scale
        else:
            floats = pixels_f32[indices[sample]]
            for i in range(features):
                out[i] = floats[i] * scale


@inner
def relu(source, x, target, y, first, last):  # type: ignore[no-untyped-def]
    """y = x where x is not below 0 (a NaN passes), else 0, for samples in a range."""
    for sample in range(first, last):
        for row in range(x[HEIGHT]):
            for column in range(x[WIDTH_]):
                start, out = place(x, sample, row, column), place(y, sample, row, column)
                line, result = source[start : start + x[CHANNELS]], target[out : out + x[CHANNELS]]
                for channel in range(x[CHANNELS]):
                    result[channel] = np.float32(0) if line[channel] < 0 else line[channel]


@inner
def relu_gradient(source, y, slopes, dy, target, dx, first, last):  # type: ignore[no-untyped-def]
    """dx = dy where the output y is above 0, else 0."""
    for sample in range(first, last):
        for row in range(y[HEIGHT]):
            for column in range(y[WIDTH_]):
                start, slope, out = (
                    place(y, sample, row, column),
                    place(dy, sample, row, column),
                    place(dx, sample, row, column),
                )
                line = source[start : start + y[CHANNELS]]
                above = slopes[slope : slope + y[CHANNELS]]
                result = target[out : out + y[CHANNELS]]
                for channel in range(y[CHANNELS]):
                    result[channel] = above[channel] if line[channel] > 0 else np.float32(0)


@inner
def pool(source, x, target, y, winners, winners_at, size, stride, first, last):  # type: ignore[no-untyped-def]
    """y = largest of each window; winners (sample, pixel, channel) int32 keeps which of its size * size pixels that is,
    the first among equals.
    """
    area = y[HEIGHT] * y[WIDTH_]
    channels = y[CHANNELS]
    whole = channels // LANES * LANES
    for sample in range(first, last):
        for row in range(y[HEIGHT]):
            for column in range(y[WIDTH_]):
                out = place(y, sample, row, column)
                at = winners_at + ((sample * area) + row * y[WIDTH_] + column) * channels
                start = place(x, sample, row * stride, column * stride)
                if size == 2:
                    for channel in range(0, whole, LANES):
                        largest_of_four(
                            source, start + channel, x[ROW], x[PIXEL], target, out + channel, winners, at + channel
                        )
                else:
                    for channel in range(0, whole, LANES):
                        largest(
                            source,
                            start + channel,
                            x[ROW],
                            x[PIXEL],
                            size,
                            target,
                            out + channel,
                            winners,
                            at + channel,
                        )
                for channel in range(
                    whole, channels
                ):  # only of images that enter the net: no gradient asks for their winners
                    best = source[start + channel]
                    for tap in range(1, size * size):
                        value = source[start + tap // size * x[ROW] + tap % size * x[PIXEL] + channel]
                        best = value if not value <= best and best == best else best
                    target[out + channel] = best


@inner
def pool_gradient(slopes, dy, winners, winners_at, size, stride, gates, gate, mask, target, dx, first, last):  # type: ignore[no-untyped-def]
    """dx = dy at each window's winner, summed where windows overlap, else 0; with `mask`, 0 where the pool's input was
    not above 0.

    gate : the pool's output: the winner's value, and so all that the mask needs. Channels are padded: a pool that
    has a gradient stands behind a layer that is trained.
    """
    area = dy[HEIGHT] * dy[WIDTH_]
    channels = dy[CHANNELS]
    apart = size == stride
    floor = np.float32(0) if mask else np.float32(-np.inf)
    for sample in range(first, last):
        if not apart or dy[HEIGHT] * size < dx[HEIGHT] or dy[WIDTH_] * size < dx[WIDTH_]:
            for row in range(dx[HEIGHT]):
                for column in range(dx[WIDTH_]):
                    out = place(dx, sample, row, column)
                    target[out : out + channels] = np.float32(0)
        for row in range(dy[HEIGHT]):
            for column in range(dy[WIDTH_]):
                slope, value = place(dy, sample, row, column), place(gate, sample, row, column)
                at = winners_at + ((sample * area) + row * dy[WIDTH_] + column) * channels
                if apart and size == 2:
                    out = place(dx, sample, 2 * row, 2 * column)
                    for channel in range(0, channels, LANES):
                        to_one_of_four(
                            slopes, slope + channel, winners, at + channel, gates, value + channel, floor, target, out + channel, dx[ROW], dx[PIXEL]
                        )  # fmt: skip
                    continue
                for tap in range(size * size):
                    out = place(dx, sample, row * stride + tap // size, column * stride + tap % size)
                    for channel in range(0, channels, LANES):
                        to_winner(
                            slopes, slope + channel, winners, at + channel, np.int32(tap), gates, value + channel, floor,
                            target, out + channel, not apart,
                        )  # fmt: skip


@inner
def upsample(source, x, target, y, scale, first, last):  # type: ignore[no-untyped-def]
    """Every pixel of x becomes scale x scale pixels of y."""
    for sample in range(first, last):
        for row in range(y[HEIGHT]):
            for column in range(y[WIDTH_]):
                start, out = place(x, sample, row // scale, column // scale), place(y, sample, row, column)
                for channel in range(x[CHANNELS]):
                    target[out + channel] = source[start + channel]


@inner
def upsample_gradient(slopes, dy, target, dx, scale, first, last):  # type: ignore[no-untyped-def]
    """dx = sum of dy over each pixel's copies."""
    for sample in range(first, last):
        for row in range(dx[HEIGHT]):
            for column in range(dx[WIDTH_]):
                out = place(dx, sample, row, column)
                result = target[out : out + dx[CHANNELS]]
                result[:] = 0
                for tap in range(scale * scale):
                    slope = place(dy, sample, row * scale + tap // scale, column * scale + tap % scale)
                    above = slopes[slope : slope + dx[CHANNELS]]
                    for channel in range(dx[CHANNELS]):
                        result[channel] += above[channel]


@inner
def flatten(source, x, target, y, channels, first, last):  # type: ignore[no-untyped-def]
    """(row, column, channel) images to rows in PyTorch's order (channel, row, column)."""
    area = x[HEIGHT] * x[WIDTH_]
    height, width = _lines(x)
    whole, squares = channels // LANES * LANES, width // LANES * LANES
    for sample in range(first, last):
        out = place(y, sample, 0, 0)
        for row in range(height):
            start, at = place(x, sample, row, 0), out + row * width
            for channel in range(0, whole, LANES):
                for column in range(0, squares, LANES):
                    turned(
                        source,
                        start + column * x[PIXEL] + channel,
                        x[PIXEL],
                        target,
                        at + column + channel * area,
                        area,
                    )
            for column in range(width):
                for channel in range(whole if column < squares else 0, channels):
                    target[at + column + channel * area] = source[start + column * x[PIXEL] + channel]


@inner
def unflatten(source, x, target, y, channels, first, last):  # type: ignore[no-untyped-def]
    """The way back: rows x in PyTorch's order to images y."""
    area = y[HEIGHT] * y[WIDTH_]
    height, width = _lines(y)
    whole, squares = channels // LANES * LANES, width // LANES * LANES
    for sample in range(first, last):
        start = place(x, sample, 0, 0)
        for row in range(height):
            out, at = place(y, sample, row, 0), start + row * width
            for channel in range(0, whole, LANES):
                for column in range(0, squares, LANES):
                    turned(
                        source, at + column + channel * area, area, target, out + column * y[PIXEL] + channel, y[PIXEL]
                    )
            for column in range(width):
                for channel in range(whole if column < squares else 0, channels):
                    target[out + column * y[PIXEL] + channel] = source[at + column + channel * area]


@inner
def _lines(x):  # type: ignore[no-untyped-def]
    """Lines of evenly spaced pixels of an image, and pixels of a line: its rows, or all of it as one where nothing
    stands between them.
    """
    dense = x[ROW] == x[WIDTH_] * x[PIXEL]
    return (1, x[HEIGHT] * x[WIDTH_]) if dense else (x[HEIGHT], x[WIDTH_])


@inner
def read_out(source, x, channels, out, at, first, last):  # type: ignore[no-untyped-def]
    """(row, column, channel) images from `first` to before `last` to rows of `out` (samples, features) in PyTorch's
    order, image 0 to row `at`.
    """
    area = x[HEIGHT] * x[WIDTH_]
    for sample in range(first, last):
        for row in range(x[HEIGHT]):
            for column in range(x[WIDTH_]):
                start = place(x, sample, row, column)
                for channel in range(channels):
                    out[at + sample, channel * area + row * x[WIDTH_] + column] = source[start + channel]
