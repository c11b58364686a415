"""Flatten and its gradient: channels-last images to and from rows in PyTorch's order (channel, row, column)."""

from ..compiler.emit import transposed
from ..compiler.functions import inner
from ..compiler.vectors import LANES
from ..program.access import activations_of, own_samples, place, reader
from ..program.operands import FlattenOperands

_read = reader(FlattenOperands)


@inner
def _lines(image):  # type: ignore[no-untyped-def]
    """Number of lines of evenly spaced pixels, and pixels of a line: the image's rows, or one line if it is dense."""
    dense = image.row == image.width * image.pixel
    return (1, image.height * image.width) if dense else (image.height, image.width)


@inner
def _copy(operands, memory, work, to_row):  # type: ignore[no-untyped-def]
    """Copy images to rows if `to_row`, else rows to images: LANES channels of LANES pixels at a time, then the rest."""
    it, a = _read(operands), activations_of(memory, work)
    image, channels, area = it.image, it.channels, it.image.height * it.image.width
    height, width = _lines(image)
    whole, squares = channels // LANES * LANES, width // LANES * LANES
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(height):
            pixels, features = place(image, sample, row, 0), place(it.row, sample, 0, 0) + row * width
            for channel in range(0, whole, LANES):
                for column in range(0, squares, LANES):
                    pixel, feature = pixels + column * image.pixel + channel, features + column + channel * area
                    if to_row:
                        transposed(a, pixel, image.pixel, a, feature, area)
                    else:
                        transposed(a, feature, area, a, pixel, image.pixel)
            for column in range(width):
                for channel in range(whole if column < squares else 0, channels):
                    pixel, feature = pixels + column * image.pixel + channel, features + column + channel * area
                    if to_row:
                        a[feature] = a[pixel]
                    else:
                        a[pixel] = a[feature]


def flatten(operands, memory, work):  # type: ignore[no-untyped-def]
    """Flatten operation: channels-last images to rows."""
    _copy(operands, memory, work, True)
    return 0.0, 0.0


def unflatten(operands, memory, work):  # type: ignore[no-untyped-def]
    """Flatten gradient operation: gradients of rows to gradients of images."""
    _copy(operands, memory, work, False)
    return 0.0, 0.0
