"""Convolutions of few pixels on tensor cores: one launch each for y, dx and dw, by clusters that share sums."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

from .....device import Array, Launch, Limits
from ....engine.kernels import Launches, OnDevice, ceil_div
from ....engine.segments import Segment
from ...gradients import Gradients, IncomingGradient
from ...problem import Image
from ..algorithm import ConvAlgorithm, ConvProblem
from ..dividers import inverse
from ..formats import HALF_FORMATS, FactorFormat
from ..narrow.plan import row_bytes

SOURCE = Path(__file__).with_name("few_pixels.cu")
WEIGHTS = Path(__file__).with_name("few_pixels_weights.cu")
#: As in the kernels: channels and pixels of a stage, threads and most groups of these, floats from column to column.
CHANNELS, PIXELS, GROUP, GROUPS, PITCH = 16, 64, 128, 2, 68
#: As in few_pixels_weights.cu: channels of a block of the still image, and of the one seen through the window.
STILL, SEEN = 32, CHANNELS
#: Most rows and columns of a tile: a larger one would have a much larger halo.
ALONG = 16
#: Most blocks of a cluster that every GPU supports.
CLUSTER = 8
#: Most tiles of a batch, each of up to PIXELS pixels of an image, and most images of it: with more, implicit GEMMs,
#: which pack weights once, are faster (docs/notes/tensor-conv2d.md).
MOST, IMAGES = 16, 4
#: Fragments of eight columns of a warp of a group, the most first, by the taps that are read (taps.cuh).
TILES = {"WINDOW": (4, 2, 1), "UPSAMPLED": (4,), "GATHERED": (2, 1)}


@dataclass(frozen=True)
class FewPixelsPass:
    """One direction of a convolution of few pixels.

    read, written : (channels, rows, columns) of the input, and of the output before a pool.
    is_backward : True if it computes dx.
    pool : True if a 2 x 2 pool follows.
    """

    read: Image
    written: Image
    is_backward: bool = False
    pool: bool = False

    @property
    def taps(self) -> str:
        """Name in taps.cuh of the taps that an output pixel reads: WINDOW, UPSAMPLED or GATHERED."""
        rows, other = self.written[1], self.read[1]
        return "WINDOW" if rows == other else "UPSAMPLED" if rows > other else "GATHERED"

    @property
    def classes(self) -> int:
        """Number of phases of output pixels: 4 after an upsampling, else 1."""
        return 4 if self.taps == "UPSAMPLED" else 1

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of computed pixels of one phase; with a pool, only those in whole windows."""
        _, high, across = self.written
        if self.taps == "UPSAMPLED":
            return high // 2, across // 2
        return (high // 2 * 2, across // 2 * 2) if self.pool else (high, across)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a tile of at most PIXELS pixels; with a pool, whole windows."""
        high, across = self.image
        step = 2 if self.pool else 1
        columns = step * ceil_div(across // step, ceil_div(across, ALONG))
        return min(high, ALONG, PIXELS // columns // step * step), columns

    @property
    def tiles_across(self) -> int:
        """Number of tiles in a row of an image."""
        return ceil_div(self.image[1], self.tile[1])

    @property
    def tiles(self) -> int:
        """Number of tiles of an image."""
        return ceil_div(self.image[0], self.tile[0]) * self.tiles_across

    @property
    def halo(self) -> tuple[int, int]:
        """Rows and columns of input pixels that a tile reads."""
        step = 2 if self.taps == "GATHERED" else 1
        rows, columns = self.tile
        return step * rows + 2, step * columns + 2


class FewPixelsPlan(NamedTuple):
    """Split of a convolution of few pixels into blocks.

    tiles : fragments of eight columns of a warp.
    cluster : blocks that share the channels of a tile.
    groups : groups of warps of a block, which share its channels.
    """

    tiles: int
    cluster: int
    groups: int


def plan(of: FewPixelsPass, n: int, limits: Limits) -> FewPixelsPlan:
    """Plan with the widest blocks that occupy three quarters of the multiprocessors, else the narrowest blocks."""
    stages = ceil_div(of.read[0], CHANNELS)
    cluster = min(CLUSTER, stages)
    groups = min(GROUPS, ceil_div(stages, cluster))
    useful = [tiles for tiles in TILES[of.taps] if tiles == TILES[of.taps][-1] or 8 * tiles < 2 * of.written[0]]
    blocks = {tiles: n * of.tiles * ceil_div(of.written[0] * of.classes, 8 * tiles) * cluster for tiles in useful}
    enough = [tiles for tiles in useful if 4 * blocks[tiles] >= 3 * limits.multiprocessors]
    return FewPixelsPlan(enough[0] if enough else useful[-1], cluster, groups)


def shared_bytes(of: FewPixelsPass, form: FewPixelsPlan, kind: FactorFormat) -> int:
    """Bytes of shared memory of a block of `convolve_few_pixels`."""
    columns, numbers = 8 * form.tiles, 9 if of.taps == "WINDOW" else 16
    rows = prod(of.halo) + numbers * columns // of.classes
    return form.groups * (4 * columns * PITCH + rows * row_bytes(CHANNELS, kind))


class LossGradient(NamedTuple):
    """Fused gradient of the mean squared error: dy = (y - target) rate.

    target, dy : arrays of y's shape.
    rate : 2 / (numbers of y in a batch).
    """

    target: Array
    dy: Array
    rate: float


class PassArrays(NamedTuple):
    """Arrays of a pass of few pixels.

    x, w, y : input images, unpacked weights, and output images.
    bias : (outputs,), or None.
    relu : True if a ReLU follows.
    argmax : uint8, of y's shape, argmax indices of a pool; None without one.
    mask : array of y's shape; y is 0 where mask is not above 0. None for no mask.
    pool_argmax : if x is the gradient of a 2 x 2 pool, its argmax indices, of x's shape; else None.
    """

    x: Array
    w: Array
    y: Array
    bias: Array | None = None
    relu: bool = False
    argmax: Array | None = None
    mask: Array | None = None
    pool_argmax: Array | None = None


class FewPixelsConvolution:
    """Launch of y, or of the gradient dx, of a convolution of small images on tensor cores, by few_pixels.cu.

    The kernel reads the weights as they are stored: no launch packs them first.
    """

    def __init__(self, owner: OnDevice, of: FewPixelsPass, precision: str) -> None:
        self.device, self.of, self.kind = owner.device, of, HALF_FORMATS[precision]

    def launch(self, n: int, t: PassArrays, loss: LossGradient | None = None) -> Launch:
        """Launch that fills y[:n] from x[:n], and the gradient of y if the mean squared error follows."""
        of, form = self.of, plan(self.of, n, self.device.limits)
        pooled = "true" if t.pool_argmax is not None else "false"
        target, dy, rate = loss if loss is not None else (None, None, 0.0)
        kernel = self.device.kernel(SOURCE, f"convolve_few_pixels<{self.kind.name}, {of.taps}, {form.tiles}, {pooled}>")
        grid = form.cluster, ceil_div(of.written[0] * of.classes, 8 * form.tiles), n * of.tiles
        (rows, columns), across = of.tile, of.tiles_across
        inverses = map(inverse, (of.tiles, across, columns // 2 if of.pool else columns, of.halo[1]))
        arrays = t.x, t.pool_argmax, t.w, t.bias, t.mask, target, t.y, dy, t.argmax
        tile = rows, columns, of.tiles, across, int(of.is_backward), int(t.relu), int(of.pool), *inverses
        return kernel.bind(
            grid, GROUP * form.groups, *arrays, rate, *of.read, *of.written, *tile,
            shared=shared_bytes(of, form, self.kind), cluster=form.cluster,
        )  # fmt: skip


class FewPixelsGradient:
    """Launcher of dw and db of a convolution of few pixels.

    small, written : (channels, rows, columns) of the input before an upsampling, and of the output before a pool.
    pool : True if a 2 x 2 pool follows.
    """

    def __init__(self, owner: OnDevice, small: Image, written: Image, pool: bool, precision: str) -> None:
        self.device, self.pool, self.kind = owner.device, pool, HALF_FORMATS[precision]
        self.upsamples = small[1:] != written[1:]
        #: The image that stands still is second: a pass through the window would write it.
        self.of = FewPixelsPass(written, small) if self.upsamples else FewPixelsPass(small, written)

    def launch(self, n: int, x: Array, dy: Array, argmax: Array | None, to: Gradients) -> Launch:
        """Launch that fills dw and db, and updates by `to`. argmax : indices of the pool with gradient dy, or None."""
        of, pooled = self.of, "true" if self.pool else "false"
        still, seen = (x, dy) if self.upsamples else (dy, x)
        kernel = self.device.kernel(WEIGHTS, f"correlate_few_pixels<{self.kind.name}, {of.taps}, {pooled}>")
        (rows, columns), across, (m, high, wide), c = of.tile, of.tiles_across, of.written, of.read[0]
        inverses = map(inverse, (of.tiles, across, columns, of.halo[1]))
        cluster = min(CLUSTER, n * of.tiles)
        sums = 4 * STILL * (SEEN * (16 if self.upsamples else 9) + 1)
        staged = PIXELS * row_bytes(STILL, self.kind) + prod(of.halo) * row_bytes(SEEN, self.kind)
        held = 0 if to.updated[1] is None else 4 * STILL * SEEN * 9 * (2 if to.updated[2] is not None else 1)
        grid, arrays = (cluster, ceil_div(m, STILL), ceil_div(c, SEEN)), (still, argmax if self.pool else None, seen)
        numbers = n, m, c, high, wide, rows, columns, of.tiles, across, *inverses, max(sums, staged) // 4
        return kernel.bind(
            grid, GROUP, *arrays, to.dw, to.db, *numbers, *to.updated,
            shared=max(sums, staged) + held, cluster=cluster,
        )  # fmt: skip


class FewPixels(ConvAlgorithm):
    """Convolution of few pixels, of one image or a few: one launch for y and one for dx, from unpacked weights."""

    uses_halves = True

    @classmethod
    def fits(cls, problem: ConvProblem) -> bool:
        """True if there are few pixels, and the device supports clusters of blocks."""
        small = problem.conv.read
        few = problem.capacity <= IMAGES and problem.capacity * FewPixelsPass(small, small).tiles <= MOST
        return problem.is_same_3x3 and few and small[0] % CHANNELS == 0 and problem.limits.cluster >= CLUSTER

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        return not problem.is_first and cls.fits(problem)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        conv, precision = problem.conv, problem.precision
        small, written = conv.read, conv.written
        self.y_pass = FewPixelsConvolution(owner, FewPixelsPass(small, written, pool=conv.pool), precision)
        if problem.trains:
            self.weight_gradient = FewPixelsGradient(owner, small, written, conv.pool, precision)
        # The next step waits for these weights first: their gradient is filled concurrently with dx, not after it.
        self.updates_separately = problem.has_dx and not isinstance(before, FewPixels)
        # Usually the next layer has masked dy by the ReLU; a pool's argmax masks it in any case.
        masks = problem.trains and not conv.pool and self.relu_output is not None
        self.incoming = IncomingGradient(owner, written, problem.capacity, False) if masks else None
        if problem.has_dx:
            self.dx_pass = FewPixelsConvolution(owner, FewPixelsPass(written, small, is_backward=True), precision)

    def forward(self, n: int, loss: LossGradient | None = None) -> Launches:
        t = self.buffers
        return [self.y_pass.launch(n, PassArrays(t.x, t.w, t.y, t.b, self.problem.conv.relu, self.argmax), loss)]

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        found = self.incoming.launches(n, t.dy, self.relu_output, None)[0] if self.incoming is not None else []
        if self.problem.has_dx:  # before the weights are updated, which it reads
            arrays = PassArrays(t.dy, t.w, t.dx, mask=self.dx_mask, pool_argmax=self.argmax)
            found.append(self.dx_pass.launch(n, arrays))
        return [*found, self.weight_gradient.launch(n, t.x, t.dy, self.argmax, to)]
