"""Factors of warpgroup products, packed in 16 bits: images with channels last, and weights by terms."""

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
#: Channels with one scale, whose multiples a layer has; threads of a block that packs weights, or at most pixels.
CHANNELS, PACKING, PACKING_PIXELS = 64, 256, 512
#: Number of taps of a written pixel, by where they read, as in taps.cuh.
TAPS = {"WINDOW": 9, "UPSAMPLED": 4, "GATHERED": 16}
KINDS = tuple(TAPS)
#: Number of classes of pixels of an upsampled image.
CLASSES = 4


@dataclass(frozen=True)
class Halves:
    """Factor of a warpgroup product, packed in 16 bits.

    high, low : uint16 high and low halves; `low` is `high` again if numbers are not split.
    inverse : float32, inverse scales; None in formats without scales.
    """

    high: Array
    low: Array
    inverse: Array | None

    @classmethod
    def scratch(cls, owner: OnDevice, shape: tuple[int, ...], scales: tuple[int, ...], kind: FactorFormat) -> Halves:
        """Scratch memory for a factor of this shape, and for scales of shape `scales` if the format has them."""
        high = owner.scratch(shape, np.uint16)
        low = owner.scratch(shape, np.uint16) if kind.copies == 2 else high
        return cls(high, low, owner.scratch(scales) if kind.has_scales else None)

    @property
    def packing(self) -> tuple[Array, Array | None, Array | None]:
        """Arguments of the packing kernels, as words of two numbers: high, low and inverse scales."""
        return _words(self.high), None if self.low is self.high else _words(self.low), self.inverse


def _words(array: Array) -> Array:
    return Array(array.device, array.address, (array.size // 2,), np.dtype(np.uint32), array.owner)


class PackedImages:
    """Up to `capacity` images (channels, rows, columns) in float32, packed with channels last.

    image : (channels, rows, columns), of one phase if they are packed by phases.
    classes : 1, or CLASSES for gradients after an upsampling, twice as high and wide: each is packed as four phases.
    comes_packed : True if the segment that writes these images packs them too.
    """

    comes_packed = False

    def __init__(self, owner: OnDevice, image: Image, capacity: int, precision: str, classes: int = 1) -> None:
        c, h, w = self.image = image
        self.device, self.kind, self.classes = owner.device, HALF_FORMATS[precision], classes
        self.halves = Halves.scratch(owner, (capacity * classes, h, w, c), (capacity, c // CHANNELS), self.kind)

    @property
    def has_scales(self) -> bool:
        """True if 64 channels of an image share a scale, which is known only after the whole image is written."""
        return self.halves.inverse is not None

    @property
    def taps(self) -> str:
        """Name in taps.cuh of the taps of the kernel that sums over these pixels: WINDOW or GATHERED."""
        return "WINDOW" if self.classes == 1 else "GATHERED"

    def pack(
        self, n: int, x: Array, y: Array | None = None, argmax: Array | None = None, sums: Array | None = None
    ) -> Launch:
        """Launch that packs x[:n].

        y : output of the ReLU if x is a ReLU's gradient, packed as 0 where y is not above 0; else None.
        argmax : argmax indices if x (n, channels, rows / 2, columns / 2) is the gradient of a 2 x 2 pool after a ReLU.
        sums : (n, channels), sums of each packed image, for the bias.
        """
        c, h, w = self.image
        h, w = (h, w) if self.classes == 1 else (2 * h, 2 * w)
        aligned = x.address % 16 == 0 and (argmax is None or argmax.address % 2 == 0)
        by_four = aligned and y is None and (w if argmax is not None else h * w) % 4 == 0
        threads = min(PACKING_PIXELS, max(64, 32 * ceil_div(h * w, 16)))
        kernel = self.device.kernel(PACK, f"pack_pixels<{self.kind.name}, {'true' if by_four else 'false'}>")
        arguments = x, y, argmax, *self.halves.packing, sums, c, h, w, int(self.classes > 1)
        return kernel.bind(n * c // CHANNELS, threads, *arguments)

    def maps(self, n: int) -> list[TensorMap]:
        """Tensor maps of n images' high and low halves, in squares of SIDE x SIDE pixels."""
        some = (half[: n * self.classes] for half in (self.halves.high, self.halves.low))
        return [self.device.tensor_map(half, (1, SIDE, SIDE)) for half in some]

    def squares(self, n: int) -> int:
        """Number of squares of SIDE x SIDE pixels in n images."""
        _, h, w = self.image
        return n * ceil_div(h, SIDE) * ceil_div(w, SIDE)


@dataclass(frozen=True)
class GradientBelow:
    """Gradient dx for the previous convolution: packed images, and `sums` (capacity, channels) over pixels, for its
    bias.
    """

    images: PackedImages
    sums: Array


class PackedWeights:
    """Weights (o, c, 3, 3) of a layer, packed by terms: for y, and for dx if `has_dx`.

    upsamples : True if they are folded for an upsampling by 2: sums have 4 c terms, in four classes; 16 o backward.
    """

    def __init__(self, owner: OnDevice, o: int, c: int, precision: str, has_dx: bool, upsamples: bool = False) -> None:
        self.device, self.kind, self.o, self.c, self.upsamples = owner.device, HALF_FORMATS[precision], o, c, upsamples
        # Numbers of each pair of an output and a channel.
        numbers = CLASSES * TAPS["UPSAMPLED"] if upsamples else TAPS["WINDOW"]
        self.forward = Halves.scratch(owner, (numbers * c, o), (o,), self.kind)
        self.backward = Halves.scratch(owner, (numbers * o, c), (c,), self.kind) if has_dx else None

    def pack(self, w: Array) -> Launch:
        """Launch that packs the weights, once a step."""
        backward = (None, None, None) if self.backward is None else self.backward.packing
        blocks = (self.o + (self.c if self.backward is not None else 0)) // (PACKING // 32)
        kernel = self.device.kernel(PACK, f"pack_weights<{self.kind.name}>")
        return kernel.bind(blocks, PACKING, w, *self.forward.packing, *backward, self.o, self.c, int(self.upsamples))
