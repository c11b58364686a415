"""Factors of warpgroup products, packed in 16 bits: images channels last, and weights by terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .....device import Array, Launch, TensorMap
from ....engine.kernels import OnDevice, ceil_div
from ...problem import Image
from ..formats import HALF_FORMATS, FactorFormat

PACK = Path(__file__).with_name("warpgroup_pack.cu")

#: Pixels along a square (squares.cuh).
SIDE = 8
#: Channels with one scale, and whose multiples a layer has; threads of a block that packs weights, and at most of one
#: that packs pixels.
CHANNELS, PACKING, PACKING_PIXELS = 64, 256, 512
#: Where taps read, as taps.cuh calls it, and the number of taps of a written pixel.
TAPS = {"WINDOW": 9, "UPSAMPLED": 4, "GATHERED": 16}
KINDS = tuple(TAPS)
#: Classes of an upsampled image's pixels.
CLASSES = 4


@dataclass(frozen=True)
class Halves:
    """A packed factor.

    high, low : uint16; `low` is `high` again if numbers are not split.
    inverse : float32, inverse scales; None in formats without scales.
    """

    high: Array
    low: Array
    inverse: Array | None

    @classmethod
    def scratch(cls, owner: OnDevice, shape: tuple[int, ...], scales: tuple[int, ...], kind: FactorFormat) -> Halves:
        """Scratch memory for a factor of this shape, with so many scales."""
        high = owner.scratch(shape, np.uint16)
        low = owner.scratch(shape, np.uint16) if kind.copies == 2 else high
        return cls(high, low, owner.scratch(scales) if kind.has_scales else None)

    @property
    def packing(self) -> tuple[Array, Array | None, Array | None]:
        """Arguments of the packing kernels, two numbers a word: high, low and inverse scales."""
        return _words(self.high), None if self.low is self.high else _words(self.low), self.inverse


def _words(array: Array) -> Array:
    return Array(array.device, array.address, (array.size // 2,), np.dtype(np.uint32), array.owner)


class PackedImages:
    """Images (n, channels, rows, columns) in float32, packed channels last, up to `capacity` of them.

    image : (channels, rows, columns), of a class if they are packed by classes.
    classes : 1, or CLASSES for images twice as high and wide, gradients of a layer after an upsampling: each is packed
    as four, one for each class.

    Attributes
    ----------
    given : bool
        True if the segment that writes these images packs them as well.
    """

    given = False

    def __init__(self, owner: OnDevice, image: Image, capacity: int, precision: str, classes: int = 1) -> None:
        c, h, w = self.image = image
        self.device, self.kind, self.classes = owner.device, HALF_FORMATS[precision], classes
        self.halves = Halves.scratch(owner, (capacity * classes, h, w, c), (capacity, c // CHANNELS), self.kind)

    @property
    def has_scales(self) -> bool:
        """True if each image's channels, 64 by 64, have a scale, which is known only when all of the image is there."""
        return self.halves.inverse is not None

    @property
    def taps(self) -> str:
        """Element offsets of each kernel tap in the packed image, for the kernel that reduces over these pixels: a name
        of taps.cuh.
        """
        return "WINDOW" if self.classes == 1 else "GATHERED"

    def pack(
        self, n: int, x: Array, y: Array | None = None, argmax: Array | None = None, sums: Array | None = None
    ) -> Launch:
        """Packs x[:n].

        y : as x, where x is the gradient of a ReLU and this its output: 0 where that is not above 0.
        argmax : where x is the gradient of a 2 x 2 pool after the ReLU, (n, channels, rows / 2, columns / 2): the
        pixels that it goes back to.
        sums : (n, channels), each image's sums of what is packed, for the bias.
        """
        c, h, w = self.image
        h, w = (h, w) if self.classes == 1 else (2 * h, 2 * w)
        aligned = x.address % 16 == 0 and (argmax is None or argmax.address % 2 == 0)
        by_four = aligned and y is None and (w if argmax is not None else h * w) % 4 == 0
        threads = min(PACKING_PIXELS, max(64, 32 * ceil_div(h * w, 16)))
        kernel = self.device.kernel(PACK, f"pack_pixels<{self.kind.name}, {'true' if by_four else 'false'}>")
        return kernel.bind(
            n * c // CHANNELS, threads, x, y, argmax, *self.halves.packing, sums, c, h, w, int(self.classes > 1)
        )

    def maps(self, n: int) -> list[TensorMap]:
        """Tensor maps of n images' high and low halves, by squares of pixels."""
        some = (half[: n * self.classes] for half in (self.halves.high, self.halves.low))
        return [self.device.tensor_map(half, (1, SIDE, SIDE)) for half in some]

    def squares(self, n: int) -> int:
        """Squares of n images."""
        _, h, w = self.image
        return n * ceil_div(h, SIDE) * ceil_div(w, SIDE)


@dataclass(frozen=True)
class GradientBelow:
    """dx in the form in which the previous convolution takes it: packed images, and `sums` (capacity, channels) over
    the pixels of each image, for its bias.
    """

    images: PackedImages
    sums: Array


class PackedWeights:
    """A layer's weights (o, c, 3, 3), packed by terms: for y, and for dx if there is one.

    upsamples : True if they are folded for an upsampling by 2 before the convolution: each pixel's sums then have 4 c
    terms, in four classes of them, and 16 o backward.
    """

    def __init__(self, owner: OnDevice, o: int, c: int, precision: str, has_dx: bool, upsamples: bool = False) -> None:
        self.device, self.kind, self.o, self.c, self.upsamples = owner.device, HALF_FORMATS[precision], o, c, upsamples
        numbers = (
            CLASSES * TAPS["UPSAMPLED"] if upsamples else TAPS["WINDOW"]
        )  # of each pair of an output and a channel
        self.forward = Halves.scratch(owner, (numbers * c, o), (o,), self.kind)
        self.backward = Halves.scratch(owner, (numbers * o, c), (c,), self.kind) if has_dx else None

    def pack(self, w: Array) -> Launch:
        """Packs the weights, once a step."""
        backward = (None, None, None) if self.backward is None else self.backward.packing
        blocks = (self.o + (self.c if self.backward is not None else 0)) // (PACKING // 32)
        kernel = self.device.kernel(PACK, f"pack_weights<{self.kind.name}>")
        return kernel.bind(blocks, PACKING, w, *self.forward.packing, *backward, self.o, self.c, int(self.upsamples))
