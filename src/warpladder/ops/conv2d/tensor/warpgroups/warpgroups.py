"""Convolutions by warpgroup products (wgmma) of Hopper, as launches: images packed channels last, y, dx and dw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .....device import Array, Device, Launch, TensorMap
from .....machine.peaks import HOPPER
from ....engine.kernels import Launches, OnDevice, ceil_div
from ...gradients import Gradients, finish
from ...products import AFTER, Image

SOURCE = Path(__file__).with_name("warpgroups.cu")
WEIGHTS = Path(__file__).with_name("warpgroup_weights.cu")
PACK = Path(__file__).with_name("warpgroup_pack.cu")

#: As in squares.cuh: pixels along a square, bytes of a piece, threads of a block, columns of a block's sums; and the
#: bytes of a ring.
SIDE, PIECE, THREADS, COLUMNS, RING = 8, 8192, 384, 128, 196608
#: Channels that one scale is for, and whose multiples a layer has; threads of a block that packs weights, and at most
#: of one that packs pixels.
CHANNELS, PACKING, PACKING_PIXELS = 64, 256, 512
#: Bytes through which sums go out, of each of eight warps: STAGED floats of staged.cuh.
STAGED = 8 * 4096
#: Where taps read, as taps.cuh calls it, and how many a written pixel has.
TAPS = {"WINDOW": 9, "ENLARGED": 4, "GATHERED": 16}
WAYS = tuple(TAPS)
#: Classes of an enlarged image's pixels.
CLASSES = 4


@dataclass(frozen=True)
class WarpgroupFormat:
    """What the kernels make of factors.

    name : as tensor_panels.cuh calls it.
    copies : numbers of 16 bits that a factor's number becomes, a high half and a low one, or one.
    scaled : whether there are scales.
    """

    name: str
    copies: int
    scaled: bool

    @property
    def most(self) -> int:
        """Tiles of 64 x 128 sums that a warpgroup has registers for: two, or one where scales are undone, and sums and
        parts of sums lie side by side.
        """
        return 1 if self.scaled else 2

    def shared(self, pieces: int) -> int:
        """Bytes of shared memory of a block whose stages have so many pieces: as many stages as a ring has room for,
        and what aligns the first.
        """
        stage = PIECE * pieces * self.copies
        return RING // stage * stage + 1024


#: By the precision that products are asked for in. tf32's numbers have the 11 bits of a half, and wgmma takes no tf32
#: factor whose terms go down its rows, as both of dw's do. So they are halves with a scale, at twice tf32's rate; below
#: 2^-28 of the largest of 64 channels of an image a number keeps fewer bits.
FORMATS = {
    "fp32": WarpgroupFormat("SPLIT", 2, True),
    "tf32": WarpgroupFormat("HALF", 1, True),
    "bf16": WarpgroupFormat("BF16", 1, False),
    "fp16": WarpgroupFormat("HALF", 1, True),
}


def fits(
    device: Device,
    small: Image,
    written: Image,
    window: tuple[int, int, int],
    capacity: int,
    precision: str,
    enlargement: int = 1,
) -> bool:
    """Whether a convolution is computed by warpgroup products: on Hopper, in whole pieces, and where its tiles are
    enough for half of the multiprocessors.

    small, written : what it reads and what it writes, before a pool; (channels, rows, columns).
    window : kernel size, stride and padding.
    capacity : images of a whole batch.
    enlargement : of what it reads, before the window.
    """
    if device.capability not in (None, HOPPER) or precision not in FORMATS or window != (3, 1, 1) or enlargement > 2:
        return False
    (c, h, w), o = small, written[0]
    tiles = ceil_div(capacity * ceil_div(h, SIDE) * ceil_div(w, SIDE), 2)
    return c % CHANNELS == o % CHANNELS == 0 and 2 * tiles >= device.limits.multiprocessors


@dataclass(frozen=True)
class Halves:
    """A factor as the kernels read it.

    high, low : uint16; `low` is `high` again where numbers are not split.
    undo : float32, what undoes scales; None where there are none.
    """

    high: Array
    low: Array
    undo: Array | None

    @property
    def packing(self) -> tuple[Array, Array | None, Array | None]:
        """As the packing kernels take it, two numbers a word: high, low and undo."""
        return _words(self.high), None if self.low is self.high else _words(self.low), self.undo


def _words(array: Array) -> Array:
    return Array(array.device, array.address, (array.size // 2,), np.dtype(np.uint32), array.owner)


def halves(owner: OnDevice, shape: tuple[int, ...], scales: tuple[int, ...], kind: WarpgroupFormat) -> Halves:
    """Scratch memory for a factor of so many numbers and scales."""
    high = owner.scratch(shape, np.uint16)
    return Halves(
        high,
        owner.scratch(shape, np.uint16) if kind.copies == 2 else high,
        owner.scratch(scales) if kind.scaled else None,
    )


class PackedImages:
    """Images (n, channels, rows, columns) in float32, packed channels last for up to `capacity` of them.

    image : (channels, rows, columns), of a class where they are packed by classes.
    classes : 1, or `CLASSES` for images twice as high and wide, gradients of a layer behind an enlargement: each is
    packed as four, one for each class.

    Attributes
    ----------
    given : bool
        Whether the segment that writes these images packs them as well.
    """

    given = False

    def __init__(self, owner: OnDevice, image: Image, capacity: int, precision: str, classes: int = 1) -> None:
        c, h, w = self.image = image
        self.device, self.kind, self.classes = owner.device, FORMATS[precision], classes
        self.halves = halves(owner, (capacity * classes, h, w, c), (capacity, c // CHANNELS), self.kind)

    @property
    def scaled(self) -> bool:
        """Whether each image's channels, 64 by 64, have a scale, which is known only when all of the image is there."""
        return self.halves.undo is not None

    @property
    def way(self) -> str:
        """Where the taps of whoever sums over these pixels read."""
        return "WINDOW" if self.classes == 1 else "GATHERED"

    def pack(
        self, n: int, x: Array, y: Array | None = None, winner: Array | None = None, sums: Array | None = None
    ) -> Launch:
        """Packs x[:n].

        y : as x, where x is the gradient of a ReLU and this its output: 0 where that is not above 0.
        winner : where x is the gradient of a 2 x 2 pool behind the ReLU, (n, channels, rows / 2, columns / 2): the
        places that it goes back to.
        sums : (n, channels), each image's sums of what is packed, for the bias.
        """
        c, h, w = self.image
        h, w = (h, w) if self.classes == 1 else (2 * h, 2 * w)
        aligned = x.address % 16 == 0 and (winner is None or winner.address % 2 == 0)
        by_four = aligned and y is None and (w if winner is not None else h * w) % 4 == 0
        threads = min(PACKING_PIXELS, max(64, 32 * ceil_div(h * w, 16)))
        kernel = self.device.kernel(PACK, f"pack_pixels<{self.kind.name}, {'true' if by_four else 'false'}>")
        return kernel.bind(
            n * c // CHANNELS, threads, x, y, winner, *self.halves.packing, sums, c, h, w, int(self.classes > 1)
        )

    def maps(self, n: int) -> list[TensorMap]:
        """Of n images' high and low halves, by squares of pixels."""
        return [
            self.device.tensor_map(half[: n * self.classes], (1, SIDE, SIDE))
            for half in (self.halves.high, self.halves.low)
        ]

    def squares(self, n: int) -> int:
        """Squares of n images."""
        _, h, w = self.image
        return n * ceil_div(h, SIDE) * ceil_div(w, SIDE)


class PackedWeights:
    """A layer's weights (o, c, 3, 3), packed by terms: for the forward pass, and for the input gradient where it is
    wanted.

    enlarged : whether they are folded for an enlargement by 2 in front; each pixel's sums then have 4 c terms, in four
    classes of them, and 16 o backward.
    """

    def __init__(self, owner: OnDevice, o: int, c: int, precision: str, both: bool, enlarged: bool = False) -> None:
        self.device, self.kind, self.o, self.c, self.enlarged = owner.device, FORMATS[precision], o, c, enlarged
        numbers = CLASSES * TAPS["ENLARGED"] if enlarged else TAPS["WINDOW"]  # of each pair of an output and a channel
        self.forward = halves(owner, (numbers * c, o), (o,), self.kind)
        self.backward = halves(owner, (numbers * o, c), (c,), self.kind) if both else None

    def pack(self, w: Array) -> Launch:
        """Packs the weights, once a step."""
        backward = (None, None, None) if self.backward is None else self.backward.packing
        blocks = (self.o + (self.c if self.backward is not None else 0)) // (PACKING // 32)
        kernel = self.device.kernel(PACK, f"pack_weights<{self.kind.name}>")
        return kernel.bind(blocks, PACKING, w, *self.forward.packing, *backward, self.o, self.c, int(self.enlarged))


def convolve(n: int, images: PackedImages, weights: Halves, bias: Array | None, y: Array, after: str = "PLAIN", winner: Array | None = None,
             below: Array | None = None, enlarges: bool = False, packed: Array | None = None) -> Launch:  # fmt: skip
    """y[:n] (n, o, h, w) from packed images and weights, + bias, then what `AFTER` names; 0 where below is not above 0.

    enlarges : whether the layer enlarges its images; y is (n, o, 2 h, 2 w) then, and not pooled.
    packed : uint16, of the shape of y with the channels last, where y goes in bf16 as well, for a layer behind that
    reads it so.
    """
    device, kind, (c, h, w), o = images.device, images.kind, images.image, weights.high.shape[1]
    across, multiprocessors = ceil_div(o, COLUMNS) * (CLASSES if enlarges else 1), device.limits.multiprocessors
    way = "ENLARGED" if enlarges else images.way
    # Two squares for each warpgroup read weights half as often; where that leaves multiprocessors idle, one.
    pieces = kind.most if ceil_div(images.squares(n), 4) * across >= multiprocessors else 1
    tiles = ceil_div(images.squares(n), 2 * pieces) * across
    of_weights = [device.tensor_map(half, CHANNELS) for half in (weights.high, weights.low)]
    return device.kernel(SOURCE, f"convolve<{kind.name}, {pieces}>").bind(
        min(tiles, multiprocessors), THREADS, *images.maps(n), *of_weights, images.halves.undo, weights.undo, bias, below, y, winner, packed,
        n, c, h, w, o, AFTER.index(after), WAYS.index(way), shared=kind.shared(2 * pieces + COLUMNS // 64) + STAGED,
    )  # fmt: skip


@dataclass(frozen=True)
class Correlation:
    """How the weight gradient of n images is cut: (tap, 128 channels) pieces of a block, blocks of a part, squares of a
    part, parts.
    """

    pieces: int
    blocks: int
    depth: int
    parts: int


def correlation(n: int, gradient: PackedImages, images: PackedImages) -> Correlation:
    """At most as many parts as `most_parts` allows, all but the last of equal depth. gradient, images : as `correlate`
    takes them.
    """
    squares = images.squares(n)
    depth = ceil_div(squares, most_parts(gradient, images))
    return Correlation(images.kind.most, _blocks(gradient, images), depth, ceil_div(squares, depth))


def _blocks(gradient: PackedImages, images: PackedImages) -> int:
    return ceil_div(TAPS[images.way] * ceil_div(images.image[0], COLUMNS), images.kind.most) * ceil_div(
        gradient.image[0], COLUMNS
    )


def most_parts(gradient: PackedImages, images: PackedImages) -> int:
    """As many parts as give every multiprocessor a block, and no more: each part is written and read once more."""
    return max(1, images.device.limits.multiprocessors // _blocks(gradient, images))


def correlate(n: int, gradient: PackedImages, images: PackedImages, parts: Array) -> Launches:
    """Parts of dw (parts, o, taps c) from the packed gradient (n, o, h, w) and images (n, c, h, w).

    Behind an enlargement the two change places: `gradient` is the small image, and `images` the gradient by classes.
    """
    cut, device, kind, (c, h, w) = correlation(n, gradient, images), images.device, images.kind, images.image
    return [
        device.kernel(WEIGHTS, f"correlate<{kind.name}, {cut.pieces}>").bind(
            (cut.blocks, cut.parts), THREADS, *gradient.maps(n), *images.maps(n), gradient.halves.undo, images.halves.undo, parts,
            n, c, h, w, gradient.image[0], cut.depth, WAYS.index(images.way), shared=kind.shared(2 + cut.pieces * COLUMNS // 64),
        )
    ]  # fmt: skip


class WarpgroupConvolution:
    """All of a convolution's passes by warpgroup products, for up to `capacity` images; the images that `forward` packs
    are those of `backward`.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    small, written : Image
        What it reads and what it writes, before a pool. Where that is twice as high and wide, an enlargement by 2
        stands in front.
    capacity : int
    precision : str
    trains : bool
        Whether there is a backward pass.
    both : bool
        Whether that has an input gradient.
    """

    def __init__(
        self, owner: OnDevice, small: Image, written: Image, capacity: int, precision: str, trains: bool, both: bool
    ) -> None:
        self.enlarges = written[1:] == (2 * small[1], 2 * small[2])
        self.images = PackedImages(owner, small, capacity, precision)
        self.weights = PackedWeights(owner, written[0], small[0], precision, both, self.enlarges)
        if not trains:
            return
        self.gradient = PackedImages(
            owner, (written[0], *small[1:]), capacity, precision, CLASSES if self.enlarges else 1
        )
        #: What sums of dw run over: whose channels are their rows, and whose are, tap by tap, their columns.
        self.factors = (self.images, self.gradient) if self.enlarges else (self.gradient, self.images)
        rows, columns = self.factors
        most = min(most_parts(rows, columns), self.images.squares(capacity))
        self.parts = owner.scratch((most, rows.image[0], TAPS[columns.way] * columns.image[0]))
        #: Of each image, for the bias.
        self.sums = owner.scratch((capacity, written[0]))

    def forward(
        self,
        n: int,
        x: Array,
        bias: Array | None,
        y: Array,
        after: str,
        winner: Array | None,
        packed: Array | None = None,
    ) -> Launches:
        """y[:n] from x[:n] and the packed weights, after what `AFTER` names; packed : as `convolve` takes it."""
        found: Launches = [] if self.images.given else [self.images.pack(n, x)]
        return [
            *found,
            convolve(
                n, self.images, self.weights.forward, bias, y, after, winner, enlarges=self.enlarges, packed=packed
            ),
        ]

    def backward(
        self,
        n: int,
        dy: Array,
        y: Array | None,
        winner: Array | None,
        to: Gradients,
        dx: Array | None,
        below: Array | None,
    ) -> Launches:
        """dw, db and dx from dy, the gradient of y; dx is 0 where below is not above 0.

        y : of a ReLU that dy does not know of yet, else None.
        winner : where a pool follows, the places that its gradient, dy, goes back to.
        """
        rows, columns = self.factors
        cut, window = (
            correlation(n, rows, columns),
            (4, 2) if self.enlarges else (3, 1),
        )  # the kernel's side, and by how much it is folded
        found: Launches = (
            []
            if self.gradient.given
            else [self.gradient.pack(n, dy, None if winner is not None else y, winner, self.sums)]
        )
        found += correlate(n, rows, columns, self.parts)
        shape = rows.image[0], columns.image[0], *window
        found.append(finish(self.gradient.device, self.parts, cut.parts, self.sums, n, shape, to))
        if dx is not None:
            assert self.weights.backward is not None
            found.append(convolve(n, self.gradient, self.weights.backward, None, dx, below=below))
        return found
