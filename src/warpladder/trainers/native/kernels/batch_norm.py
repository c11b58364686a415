"""Batch normalisation and its gradient on the native rung. Sums are float64.

A batch is one block, which all threads share: sums over it are divided by panels of channels, maps by samples, with a
barrier between them. A layer's statistics are 4 x channels float64, padded to whole panels: mean, inverse deviation,
and in the backward pass the means of dy z and of dy, for z = (x - mean) / deviation.

Vectors of a panel's channels go along a row of pixels in float64 registers; channels of an image that is not padded are
a loop. `held` are a layer's statistics: at index c a channel's mean, `padded` further its inverse deviation, and so on.
"""

import math

import numpy as np
from llvmlite import ir

from ..compiler.emit import I64, VECTOR, counted, emitted, first_lanes, load, maximum, splat, store, zeros
from ..compiler.functions import inner
from ..compiler.vectors import LANES, WIDTH
from ..program.access import activations_of, cut, doubles, floats, own_samples, reader, share
from ..program.elementwise_operands import NormaliseGradientOperands, NormaliseOperands
from ..program.memory import BUFFERS, GRADIENTS, STATISTICS, WEIGHTS

_read, _read_gradient = reader(NormaliseOperands), reader(NormaliseGradientOperands)

F64 = ir.DoubleType()
DOUBLES = ir.VectorType(F64, LANES)


def _wide(builder, a, at):  # type: ignore[no-untyped-def]
    """Vector of float32 numbers as float64."""
    return builder.fpext(load(builder, a, at), DOUBLES)


def _place(builder, held, at):  # type: ignore[no-untyped-def]
    return builder.bitcast(builder.gep(held, [at]), DOUBLES.as_pointer())


def _held(builder, held, c, padded, which):  # type: ignore[no-untyped-def]
    """Vector of statistic number `which` of channels c, c + 1, ..., from the held statistics."""
    return builder.load(_place(builder, held, _index(builder, c, padded, which)), align=8)


def _keep(builder, held, c, padded, which, value):  # type: ignore[no-untyped-def]
    builder.store(value, _place(builder, held, _index(builder, c, padded, which)), align=8)


def _index(builder, c, padded, which):  # type: ignore[no-untyped-def]
    return builder.add(c, builder.mul(padded, I64(which)))


def _pixel(builder, at, step, k):  # type: ignore[no-untyped-def]
    return builder.add(at, builder.mul(k, step))


@emitted()
def _add_row(builder, a, at, step, count, held, c):  # type: ignore[no-untyped-def]
    """Add a row's numbers of the channels to their means."""
    k, (total,), close = counted(builder, count, [_held(builder, held, c, c, 0)])
    close([builder.fadd(total, _wide(builder, a, _pixel(builder, at, step, k)))])
    _keep(builder, held, c, c, 0, total)


@emitted()
def _add_squares(builder, a, at, step, count, held, c, padded):  # type: ignore[no-untyped-def]
    """Add the squares of a row's differences from the mean to the second statistic."""
    mean = _held(builder, held, c, padded, 0)
    k, (total,), close = counted(builder, count, [_held(builder, held, c, padded, 1)])
    apart = builder.fsub(_wide(builder, a, _pixel(builder, at, step, k)), mean)
    close([builder.fadd(total, builder.fmul(apart, apart))])
    _keep(builder, held, c, padded, 1, total)


@emitted()
def _add_products(builder, a, places, count, held, c, padded):  # type: ignore[no-untyped-def]
    """Add a row's dy z and dy to their sums; places : index and step of x and of dy."""
    x, x_step, dy, dy_step = places
    mean, factor, *sums = (_held(builder, held, c, padded, which) for which in range(4))
    k, (products, total), close = counted(builder, count, sums)
    z = builder.fmul(builder.fsub(_wide(builder, a, _pixel(builder, x, x_step, k)), mean), factor)
    slope = _wide(builder, a, _pixel(builder, dy, dy_step, k))
    close([builder.fadd(products, builder.fmul(slope, z)), builder.fadd(total, slope)])
    for which, value in ((2, products), (3, total)):
        _keep(builder, held, c, padded, which, value)


def _parameter(builder, weights, at, c, default):  # type: ignore[no-untyped-def]
    """Vector of parameters as float64, `default` if `at` is below 0."""
    has_none = builder.icmp_signed("<", at, I64(0))
    index = builder.add(builder.select(has_none, I64(0), at), c)
    found = builder.fpext(load(builder, weights, index), DOUBLES)
    return builder.select(has_none, ir.Constant(DOUBLES, [default] * LANES), found)


@emitted()
def _normalised_row(builder, a, places, held, which, weights, parameters, least):  # type: ignore[no-untyped-def]
    """Write y = z w + b of a row, at least `least`, and 0 from the layer's last channel on.

    places : index and step of x and of y, and pixels. which : c, padded channels, and channels from c on.
    parameters : offsets of w and b, or below 0.
    """
    (x, x_step, y, y_step, count), (c, padded, channels) = places, which
    mean, factor = (_held(builder, held, c, padded, each) for each in range(2))
    w = _parameter(builder, weights, parameters[0], c, 1.0)
    b = _parameter(builder, weights, parameters[1], c, 0.0)
    real, least = first_lanes(builder, channels), splat(builder, least)
    k, _, close = counted(builder, count, [])
    z = builder.fmul(builder.fsub(_wide(builder, a, _pixel(builder, x, x_step, k)), mean), factor)
    found = builder.fptrunc(builder.fadd(builder.fmul(z, w), b), VECTOR)
    found = builder.select(real, maximum(builder, found, least), zeros())
    store(builder, a, _pixel(builder, y, y_step, k), found)
    close([])


@emitted()
def _row_gradient(builder, a, places, held, which, weights, at):  # type: ignore[no-untyped-def]
    """Write dx = (dy - mean of dy - z mean of dy z) / deviation * w of a row, and 0 from the layer's last channel on.

    places : index and step of x, of dy and of dx, and pixels. which : as above. at : offset of w, or below 0.
    """
    (x, x_step, dy, dy_step, dx, dx_step, count), (c, padded, channels) = places, which
    mean, factor, products, total = (_held(builder, held, c, padded, each) for each in range(4))
    w, real = _parameter(builder, weights, at, c, 1.0), first_lanes(builder, channels)
    k, _, close = counted(builder, count, [])
    z = builder.fmul(builder.fsub(_wide(builder, a, _pixel(builder, x, x_step, k)), mean), factor)
    slope = builder.fsub(_wide(builder, a, _pixel(builder, dy, dy_step, k)), total)
    found = builder.fmul(builder.fmul(builder.fsub(slope, builder.fmul(z, products)), factor), w)
    found = builder.select(real, builder.fptrunc(found, VECTOR), zeros())
    store(builder, a, _pixel(builder, dx, dx_step, k), found)
    close([])


@inner
def _panels(channels):  # type: ignore[no-untyped-def]
    return (channels + WIDTH - 1) // WIDTH


@inner
def _own_channels(channels, work):  # type: ignore[no-untyped-def]
    """First channel of the thread's panels, and the one after the last."""
    first, last = share(_panels(channels), work.part, work.parts)
    return first * WIDTH, min(last * WIDTH, channels)


@inner
def _whole(view, other, last):  # type: ignore[no-untyped-def]
    """Channels up to `last` that vectors compute: rounded up where both views' channels are padded, else down."""
    padded = view.channels % LANES == 0 and other.channels % LANES == 0
    return (last + (LANES - 1 if padded else 0)) // LANES * LANES


@inner
def _statistics(memory, offset, channels):  # type: ignore[no-untyped-def]
    """Statistics of a layer, (4 * padded channels,) float64, and the number of padded channels."""
    padded = _panels(channels) * WIDTH
    return cut(doubles(memory, STATISTICS, 0), offset, 4 * padded), padded


@inner
def _line(view, sample, row, samples):  # type: ignore[no-untyped-def]
    """Index of a row's first pixel, elements from pixel to pixel, and pixels; flat samples are pixels of one row."""
    if view.height * view.width == 1:
        return view.offset + sample * view.sample, view.sample, samples
    return view.offset + sample * view.sample + row * view.row, view.pixel, view.width


@inner
def _lines(view, samples):  # type: ignore[no-untyped-def]
    """Samples with rows of their own."""
    return min(1, samples) if view.height * view.width == 1 else samples


@inner
def _number(bits):  # type: ignore[no-untyped-def]
    return np.int64(bits).view(np.float64)


def batch_statistics(operands, memory, work):  # type: ignore[no-untyped-def]
    """Batch statistics operation: mean and inverse deviation of x, which move the running ones; in predictions the
    running ones.
    """
    it, a = _read(operands), activations_of(memory, work)
    held, padded = _statistics(memory, it.statistics, it.channels)
    running, eps, momentum = floats(memory, BUFFERS, 0), _number(it.eps), _number(it.momentum)
    first, last = _own_channels(it.channels, work)
    for c in range(first, last):
        held[c], held[padded + c] = 0.0, 0.0
    if work.settings.mask_key < 0:
        for c in range(first, last):
            held[c] = running[it.running + c]
            held[padded + c] = 1 / math.sqrt(np.float64(running[it.running + it.channels + c]) + eps)
        return 0.0, 0.0
    count, whole = np.float64(work.n * it.x.height * it.x.width), _whole(it.x, it.x, last)
    for sample in range(_lines(it.x, work.n)):
        for row in range(it.x.height):
            x, step, pixels = _line(it.x, sample, row, work.n)
            for c in range(first, whole, LANES):
                _add_row(a, x + c, step, pixels, held, c)
            for c in range(max(first, whole), last):
                for i in range(pixels):
                    held[c] += a[x + i * step + c]
    for c in range(first, last):
        held[c] /= count
    for sample in range(_lines(it.x, work.n)):
        for row in range(it.x.height):
            x, step, pixels = _line(it.x, sample, row, work.n)
            for c in range(first, whole, LANES):
                _add_squares(a, x + c, step, pixels, held, c, padded)
            for c in range(max(first, whole), last):
                for i in range(pixels):
                    held[padded + c] += (a[x + i * step + c] - held[c]) ** 2
    for c in range(first, last):
        at, squares = it.running + c, held[padded + c]
        running[at] = (1 - momentum) * running[at] + momentum * held[c]
        at += it.channels
        running[at] = (1 - momentum) * running[at] + momentum * (squares / (count - 1))
        held[padded + c] = 1 / math.sqrt(squares / count + eps)
    return 0.0, 0.0


def normalise(operands, memory, work):  # type: ignore[no-untyped-def]
    """Normalise operation: y = z w + b, perhaps with a ReLU, without the padding, which stays 0."""
    it, a, weights = _read(operands), activations_of(memory, work), floats(memory, WEIGHTS, 0)
    held, padded = _statistics(memory, it.statistics, it.channels)
    first, last = own_samples(work)
    whole = _whole(it.x, it.y, it.channels)
    least = np.float32(0 if it.has_relu != 0 else -np.inf)
    for sample in range(first, first + _lines(it.x, last - first)):
        for row in range(it.x.height):
            (x, x_step, pixels), (y, y_step, _) = (
                _line(it.x, sample, row, last - first),
                _line(it.y, sample, row, last - first),
            )
            for c in range(0, whole, LANES):
                places, which = (x + c, x_step, y + c, y_step, pixels), (c, padded, it.channels - c)
                _normalised_row(a, places, held, which, weights, (it.weights, it.bias), least)
            for c in range(whole, it.channels):
                w = np.float32(1) if it.weights < 0 else weights[it.weights + c]
                b = np.float32(0) if it.weights < 0 else weights[it.bias + c]
                for i in range(pixels):
                    z = (a[x + i * x_step + c] - held[c]) * held[padded + c]
                    found = np.float32(z * w + b)
                    a[y + i * y_step + c] = least if found < least else found
    return 0.0, 0.0


def normalise_sums(operands, memory, work):  # type: ignore[no-untyped-def]
    """Normalise sums operation: dw = sum of dy z, db = sum of dy, and both divided by the numbers of a channel."""
    it, a, gradients = _read_gradient(operands), activations_of(memory, work), floats(memory, GRADIENTS, work.slot)
    held, padded = _statistics(memory, it.statistics, it.channels)
    first, last = _own_channels(it.channels, work)
    products, total = 2 * padded, 3 * padded
    for c in range(first, last):
        held[products + c], held[total + c] = 0.0, 0.0
    whole = _whole(it.x, it.dy, last)
    for sample in range(_lines(it.x, work.n)):
        for row in range(it.x.height):
            (x, x_step, pixels), (dy, dy_step, _) = (
                _line(it.x, sample, row, work.n),
                _line(it.dy, sample, row, work.n),
            )
            for c in range(first, whole, LANES):
                _add_products(a, (x + c, x_step, dy + c, dy_step), pixels, held, c, padded)
            for c in range(max(first, whole), last):
                for i in range(pixels):
                    z = (a[x + i * x_step + c] - held[c]) * held[padded + c]
                    held[products + c] += a[dy + i * dy_step + c] * z
                    held[total + c] += a[dy + i * dy_step + c]
    count = np.float64(work.n * it.x.height * it.x.width)
    for c in range(first, last):
        if it.weights >= 0:
            gradients[it.weights + c], gradients[it.bias + c] = held[products + c], held[total + c]
        held[products + c] /= count
        held[total + c] /= count
    return 0.0, 0.0


def normalise_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Normalise gradient operation: dx = w / deviation (dy - mean of dy - z mean of dy z)."""
    it, a, weights = _read_gradient(operands), activations_of(memory, work), floats(memory, WEIGHTS, 0)
    held, padded = _statistics(memory, it.statistics, it.channels)
    first, last = own_samples(work)
    whole = min(_whole(it.x, it.dy, it.channels), _whole(it.x, it.dx, it.channels))
    for sample in range(first, first + _lines(it.x, last - first)):
        for row in range(it.x.height):
            (x, x_step, pixels), (dy, dy_step, _), (dx, dx_step, _) = (
                _line(it.x, sample, row, last - first),
                _line(it.dy, sample, row, last - first),
                _line(it.dx, sample, row, last - first),
            )
            for c in range(0, whole, LANES):
                places = (x + c, x_step, dy + c, dy_step, dx + c, dx_step, pixels)
                _row_gradient(a, places, held, (c, padded, it.channels - c), weights, it.weights)
            for c in range(whole, it.channels):
                w = np.float32(1) if it.weights < 0 else weights[it.weights + c]
                for i in range(pixels):
                    z = (a[x + i * x_step + c] - held[c]) * held[padded + c]
                    found = a[dy + i * dy_step + c] - held[3 * padded + c] - z * held[2 * padded + c]
                    a[dx + i * dx_step + c] = found * held[padded + c] * w
    return 0.0, 0.0
