"""Convolutions by Hopper's warpgroup products (wgmma): y, dx and dw."""

from pathlib import Path
from typing import NamedTuple

from .....device import Array, Launch
from ....engine.kernels import Launches, OnDevice, ceil_div
from ....engine.segments import Segment
from ...gradients import Gradients, finish
from ...problem import Image
from ...products import AFTER
from ..algorithm import ConvAlgorithm, ConvProblem
from ..formats import FactorFormat
from .images import CHANNELS, CLASSES, KINDS, SIDE, TAPS, GradientBelow, Halves, PackedImages, PackedWeights

SOURCE = Path(__file__).with_name("warpgroups.cu")
WEIGHTS = Path(__file__).with_name("warpgroup_weights.cu")
#: As in squares.cuh: bytes of a piece, threads of a block, columns of its sums; bytes of a ring.
PIECE, THREADS, COLUMNS, RING = 8192, 384, 128, 196608
#: Bytes through which eight warps write their sums, STAGED floats of staged.cuh each.
STAGED = 8 * 4096


def most_tiles(kind: FactorFormat) -> int:
    """Number of tiles of 64 x 128 sums in a warpgroup's registers: one in formats with scales, which also hold partial
    sums, else two.
    """
    return 1 if kind.has_scales else 2


def shared_bytes(kind: FactorFormat, pieces: int) -> int:
    """Bytes of shared memory: the stages of `pieces` pieces that fit the ring, and 1024 to align the first."""
    stage = PIECE * pieces * kind.copies
    return RING // stage * stage + 1024


class Outputs(NamedTuple):
    """Output arrays of `convolve`, and the operation fused after it.

    y : (n, o, rows, columns), after the pool if there is one.
    bias : (o,), or None.
    after : a name in `products.AFTER`.
    argmax : uint8, of the shape of y, argmax indices of a pool; else None.
    mask : array of the shape of y; y is 0 where mask is not above 0. None for no mask.
    packed : uint16, of the shape of y with the channels last: a copy of y in bf16 for the next layer. None for no copy.
    """

    y: Array
    bias: Array | None = None
    after: str = "PLAIN"
    argmax: Array | None = None
    mask: Array | None = None
    packed: Array | None = None


def convolve(n: int, images: PackedImages, weights: Halves, to: Outputs, upsamples: bool = False) -> Launch:
    """Launch that fills y[:n] from packed images and weights.

    upsamples : True if the layer upsamples its images by 2; y is twice as high and wide, and not pooled.
    """
    device, kind, (c, h, w), o = images.device, images.kind, images.image, weights.high.shape[1]
    across, multiprocessors = ceil_div(o, COLUMNS) * (CLASSES if upsamples else 1), device.limits.multiprocessors
    taps = "UPSAMPLED" if upsamples else images.taps
    # Two squares for each warpgroup read weights half as often; where that leaves multiprocessors idle, one.
    pieces = most_tiles(kind) if ceil_div(images.squares(n), 4) * across >= multiprocessors else 1
    tiles = ceil_div(images.squares(n), 2 * pieces) * across
    maps = *images.maps(n), *(device.tensor_map(half, CHANNELS) for half in (weights.high, weights.low))
    arrays = images.halves.inverse, weights.inverse, to.bias, to.mask, to.y, to.argmax, to.packed
    numbers = n, c, h, w, o, AFTER.index(to.after), KINDS.index(taps)
    blocks, shared = min(tiles, multiprocessors), shared_bytes(kind, 2 * pieces + COLUMNS // 64) + STAGED
    kernel = device.kernel(SOURCE, f"convolve<{kind.name}, {pieces}>")
    return kernel.bind(blocks, THREADS, *maps, *arrays, *numbers, shared=shared)


class WarpgroupPlan(NamedTuple):
    """Split of dw: pieces (tap, 128 channels) a block, blocks and squares of a part, parts, and most parts."""

    pieces: int
    blocks: int
    depth: int
    parts: int
    most: int


def plan(n: int, gradient: PackedImages, images: PackedImages) -> WarpgroupPlan:
    """Split of the weight gradient of n images: all parts but the last have the same depth.

    There are as many parts as give every multiprocessor a block, and no more: each part is written and read once more.
    """
    pieces, squares = most_tiles(images.kind), images.squares(n)
    blocks = ceil_div(TAPS[images.taps] * ceil_div(images.image[0], COLUMNS), pieces)
    blocks *= ceil_div(gradient.image[0], COLUMNS)
    most = max(1, images.device.limits.multiprocessors // blocks)
    depth = ceil_div(squares, most)
    return WarpgroupPlan(pieces, blocks, depth, ceil_div(squares, depth), min(most, squares))


def correlate(n: int, gradient: PackedImages, images: PackedImages, partials: Array) -> Launches:
    """Launches that fill the partials of dw (parts, o, taps c) from the packed gradient (n, o, h, w) and images (n, c,
    h, w).

    After an upsampling the two are exchanged: `gradient` is the small image, and `images` the gradient by phases.
    """
    found, device, kind, (c, h, w) = plan(n, gradient, images), images.device, images.kind, images.image
    maps = *gradient.maps(n), *images.maps(n)
    inverses = gradient.halves.inverse, images.halves.inverse
    numbers = n, c, h, w, gradient.image[0], found.depth, KINDS.index(images.taps)
    grid, shared = (found.blocks, found.parts), shared_bytes(kind, 2 + found.pieces * COLUMNS // 64)
    kernel = device.kernel(WEIGHTS, f"correlate<{kind.name}, {found.pieces}>")
    return [kernel.bind(grid, THREADS, *maps, *inverses, partials, *numbers, shared=shared)]


class WarpgroupConvolution:
    """Launchers of y, dx and dw of a convolution by warpgroup products, for up to `capacity` images.

    owner : segment that holds the scratch memory.
    small, written : (channels, rows, columns) of the input, and of the output before a pool. If the output is twice as
    high and wide, an upsampling by 2 precedes the convolution.
    trains, has_dx : True if there is a backward pass, on the images of `forward`, and if it computes dx.
    """

    def __init__(
        self, owner: OnDevice, small: Image, written: Image, capacity: int, precision: str, trains: bool, has_dx: bool
    ) -> None:
        self.upsamples = written[1:] == (2 * small[1], 2 * small[2])
        self.images = PackedImages(owner, small, capacity, precision)
        self.weights = PackedWeights(owner, written[0], small[0], precision, has_dx, self.upsamples)
        if not trains:
            return
        gradient = written[0], *small[1:]
        self.gradient = PackedImages(owner, gradient, capacity, precision, CLASSES if self.upsamples else 1)
        #: Factors of dw: the image whose channels are its rows, and the one whose channels, by taps, are its columns.
        self.factors = (self.images, self.gradient) if self.upsamples else (self.gradient, self.images)
        rows, columns = self.factors
        most = plan(capacity, rows, columns).most
        self.partials = owner.scratch((most, rows.image[0], TAPS[columns.taps] * columns.image[0]))
        #: Sums of each image, for the bias.
        self.sums = owner.scratch((capacity, written[0]))

    def forward(self, n: int, x: Array, to: Outputs) -> Launches:
        """Launches that fill y[:n] from x[:n] and the packed weights."""
        found: Launches = [] if self.images.comes_packed else [self.images.pack(n, x)]
        return [*found, convolve(n, self.images, self.weights.forward, to, self.upsamples)]

    def backward(
        self, n: int, dy: Array, y: Array | None, argmax: Array | None, to: Gradients, dx: Array | None,
        mask: Array | None
    ) -> Launches:  # fmt: skip
        """Launches that fill dw, db and dx from dy, the gradient of y; dx is 0 where mask is not above 0.

        y : output of a ReLU whose mask has not been applied to dy, else None.
        argmax : indices of the pool whose gradient is dy; else None.
        """
        rows, columns = self.factors
        parts, side_and_fold = plan(n, rows, columns).parts, (4, 2) if self.upsamples else (3, 1)
        found: Launches = []
        if not self.gradient.comes_packed:
            found.append(self.gradient.pack(n, dy, None if argmax is not None else y, argmax, self.sums))
        found += correlate(n, rows, columns, self.partials)
        shape = rows.image[0], columns.image[0], *side_and_fold
        found.append(finish(self.gradient.device, (self.partials, parts), (self.sums, n), shape, to))
        if dx is not None:
            assert self.weights.backward is not None
            found.append(convolve(n, self.gradient, self.weights.backward, Outputs(dx, mask=mask)))
        return found


class Warpgroups(ConvAlgorithm):
    """Convolution by Hopper's wgmma, for 3 x 3 windows, also after an upsampling by 2, and multiples of 64 channels and
    outputs.

    In bf16 the previous convolution writes its output packed, if its algorithm can. In fp16 and fp32 a separate launch
    packs, because the scale of an image is known once the whole image is written.
    """

    packs = True
    uses_halves = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        """True on Hopper, for multiples of CHANNELS channels, more than CHANNELS on a side, if tiles are at least half
        as many as the multiprocessors.
        """
        (c, h, w), o = problem.conv.read, problem.conv.written[0]
        tiles = ceil_div(problem.capacity * ceil_div(h, SIDE) * ceil_div(w, SIDE), 2)
        # of CHANNELS on both sides implicit/ is faster (docs/notes/tensor-conv2d.md)
        whole = c % CHANNELS == o % CHANNELS == 0 and c + o > 2 * CHANNELS
        return problem.has_wgmma and problem.is_same_3x3 and whole and 2 * tiles >= problem.limits.multiprocessors

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        images, settings = (problem.conv.read, problem.conv.written), (problem.capacity, problem.precision)
        self.passes = WarpgroupConvolution(owner, *images, *settings, problem.trains, problem.has_dx)
        self.passes.images.comes_packed = before is not None and before.feed(self.passes.images)

    def fed_back(self) -> GradientBelow | None:
        if not self.problem.trains or self.problem.conv.pool or self.relu_output is not None:
            return None
        self.passes.gradient.comes_packed = True
        return GradientBelow(self.passes.gradient, self.passes.sums)

    def prepare(self) -> Launches:
        return [self.passes.weights.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        to = Outputs(t.y, t.b, self.problem.conv.after, self.argmax, packed=self.packed)
        return self.passes.forward(n, t.x, to)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.dy, self.relu_output, self.argmax, to, t.dx, self.dx_mask)
