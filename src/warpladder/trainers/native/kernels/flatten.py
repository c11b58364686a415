"""Flatten and its gradient: channels-last images to and from rows in PyTorch's order (channel, row, column)."""

from __future__ import annotations

from ..compiler.emit import transposed
from ..compiler.functions import inner
from ..compiler.vectors import LANES
from ..program.access import activations_of, own_samples, place, reader
from ..program.operands import FlattenOperands

_read = reader(FlattenOperands)


@inner
def _lines(image):  # type: ignore[no-untyped-def]
    """Lines of evenly spaced pixels, and pixels of a line: the image's rows, or one line if it is dense."""
    dense = image.row == image.width * image.pixel
    return (1, image.height * image.width) if dense else (image.height, image.width)


def flatten(operands, memory, work):  # type: ignore[no-untyped-def]
    """Images to rows, LANES x LANES numbers at a time."""
    it, a = _read(operands), activations_of(memory, work)
    image, channels, area = it.image, it.channels, it.image.height * it.image.width
    height, width = _lines(image)
    whole, squares = channels // LANES * LANES, width // LANES * LANES
    first, last = own_samples(work)
    for sample in range(first, last):
        out = place(it.row, sample, 0, 0)
        for row in range(height):
            start, at = place(image, sample, row, 0), out + row * width
            for channel in range(0, whole, LANES):
                for column in range(0, squares, LANES):
                    pixel = start + column * image.pixel + channel
                    transposed(a, pixel, image.pixel, a, at + column + channel * area, area)
            for column in range(width):
                for channel in range(whole if column < squares else 0, channels):
                    a[at + column + channel * area] = a[start + column * image.pixel + channel]
    return 0.0, 0.0


def unflatten(operands, memory, work):  # type: ignore[no-untyped-def]
    """Rows to images, LANES x LANES numbers at a time."""
    it, a = _read(operands), activations_of(memory, work)
    image, channels, area = it.image, it.channels, it.image.height * it.image.width
    height, width = _lines(image)
    whole, squares = channels // LANES * LANES, width // LANES * LANES
    first, last = own_samples(work)
    for sample in range(first, last):
        start = place(it.row, sample, 0, 0)
        for row in range(height):
            out, at = place(image, sample, row, 0), start + row * width
            for channel in range(0, whole, LANES):
                for column in range(0, squares, LANES):
                    pixel = out + column * image.pixel + channel
                    transposed(a, at + column + channel * area, area, a, pixel, image.pixel)
            for column in range(width):
                for channel in range(whole if column < squares else 0, channels):
                    a[out + column * image.pixel + channel] = a[at + column + channel * area]
    return 0.0, 0.0
