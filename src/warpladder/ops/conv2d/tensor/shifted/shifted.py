"""Convolutions of few outputs after an upsampling by 2, by Hopper's wgmma: multiply first, then shift."""

from pathlib import Path

import numpy as np

from .....device import Array, Launch
from ....engine.kernels import Launches, OnDevice, ceil_div
from ....engine.segments import Segment
from ...gradients import Gradients, finish
from ...problem import Image
from ..algorithm import ConvAlgorithm, ConvProblem
from ..formats import HALF_FORMATS, FactorFormat
from ..warpgroups.images import CHANNELS, PACKING, GradientBelow
from ..warpgroups.warpgroups import PIECE

SOURCE = Path(__file__).with_name("shifted.cu")
GRADIENT = Path(__file__).with_name("shifted_gradient.cu")
PACK = Path(__file__).with_name("shifted_pack.cu")
#: As in shifted.cuh: threads of a block, most outputs, columns of a product, most pixels of an image and their pieces.
THREADS, OUTPUTS, COLUMNS, PIXELS, PIECES = 512, 4, 64, 256, 4
#: Chunks of 64 channels whose sums of dw a block holds; floats from column to column of products.
SLICE, PITCH = 4, PIXELS + 8


class ShiftedConvolution:
    """Launchers of y, dx and dw of Upsample2d(2) and a 3 x 3 convolution with padding 1, for up to `capacity` images.

    owner : segment that holds the scratch memory.
    small, written : (channels, rows, columns) of the unpacked input, and of the output, twice as high and wide.
    trains : True if there is a backward pass.
    below : packed buffers for dx of the previous convolution, in place of an array; or None.
    """

    def __init__(
        self, owner: OnDevice, small: Image, written: Image, capacity: int, precision: str, trains: bool,
        below: GradientBelow | None = None
    ) -> None:  # fmt: skip
        self.device, self.kind, self.small = owner.device, HALF_FORMATS[precision], small
        self.o, self.below, c = written[0], below, small[0]
        self.weights = ShiftedWeights(owner, c, OUTPUTS, self.kind)
        self.backward_weights: ShiftedWeights | None = None
        if not trains:
            return
        # Without scales, and in the order of memory, both directions share a copy of the weights.
        separate = self.kind.has_scales or below is not None
        self.backward_weights = ShiftedWeights(owner, c, c, self.kind) if separate else self.weights
        self.partials = owner.scratch((self._blocks(capacity), c, COLUMNS))
        self.sums = owner.scratch((self._blocks(capacity), self.o))

    def _blocks(self, n: int) -> int:
        return min(n, self.device.limits.multiprocessors)

    def pack(self, w: Array) -> Launch:
        """Launch that packs the weights (o, c, 3, 3), once a step."""
        c, back = self.small[0], self.backward_weights
        others = (None, None) if back is None or back is self.weights else (back.pieces, back.inverse)
        arrays, ordered = (w, self.weights.pieces, self.weights.inverse, *others), int(self.below is not None)
        kernel = self.device.kernel(PACK, f"pack_shifted<{self.kind.name}>")
        return kernel.bind(c // CHANNELS, PACKING, *arrays, self.o, c, ordered)

    def forward(self, n: int, x: Array, bias: Array, y: Array) -> Launches:
        """Launches that fill y[:n] (n, o, 2 h, 2 w) from x[:n] (n, c, h, w) and the packed weights, with bias."""
        kernel = self.device.kernel(SOURCE, f"convolve_shifted<{self.kind.name}>")
        shared = (PIECES + 2) * self.kind.copies * PIECE + 4 * COLUMNS * PITCH + 1024
        arrays = x, self.weights.pieces, self.weights.inverse, bias, y
        return [kernel.bind(self._blocks(n), THREADS, *arrays, n, *self.small, self.o, shared=shared)]

    def backward(self, n: int, x: Array, dy: Array, to: Gradients, dx: Array | None, masks: bool) -> Launches:
        """Launches that fill dw, db and dx[:n] from x[:n] and dy[:n].

        dx : array of the shape of x, or None. With `below`, its buffers are filled instead.
        masks : True if x is the output of a ReLU, so that dx is 0 where x is not above 0.
        """
        weights, below, (c, _, columns) = self.backward_weights, self.below, self.small
        assert weights is not None
        blocks, kind, packs = self._blocks(n), self.kind, "false" if below is None else "true"
        packed = (None, None, None, None) if below is None else (*below.images.halves.packing, below.sums)
        by_classes = columns if below is not None and below.images.classes > 1 else 0
        shared = (2 * PIECES + SLICE) * kind.copies * PIECE + 4 * OUTPUTS * 4 * PIXELS + CHANNELS * PIXELS // 4 + 1024
        kernel = self.device.kernel(GRADIENT, f"differentiate_shifted<{kind.name}, {packs}>")
        read, written = (x, dy, weights.pieces, weights.inverse), (None if below is not None else dx, *packed)
        numbers = n, *self.small, self.o, int(masks), by_classes
        grid, sums = (blocks, ceil_div(c // CHANNELS, SLICE)), (self.partials, self.sums)
        product = kernel.bind(grid, THREADS, *read, *written, *sums, *numbers, shared=shared)
        product.products = 1 if dx is None else 2
        return [product, finish(self.device, (self.partials, blocks), (self.sums, blocks), (c, self.o, 4, 2), to)]


class ShiftedWeights:
    """Packed weights of one direction of a shifted convolution.

    pieces : uint32, a piece of 64 columns for each 64 channels; high halves, then low halves if numbers are split.
    inverse : (scales,) float32, inverse scales; None in formats without scales.
    """

    def __init__(self, owner: OnDevice, c: int, scales: int, kind: FactorFormat) -> None:
        self.pieces = owner.scratch((c // CHANNELS * kind.copies * PIECE // 4,), np.uint32)
        self.inverse = owner.scratch((scales,)) if kind.has_scales else None


class Shifted(ConvAlgorithm):
    """Convolution of few outputs after an upsampling by 2, as an autoencoder's last layer: wgmma first, then shifts."""

    uses_halves = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        """True on Hopper for few outputs and small images, if their number is at least half of the multiprocessors'."""
        conv, enough = problem.conv, 2 * problem.capacity >= problem.limits.multiprocessors
        (c, h, w), o = conv.read, conv.written[0]
        plain = conv.upsample == 2 and conv.after == "PLAIN"
        small = c % CHANNELS == 0 and o <= OUTPUTS and h * w <= PIXELS
        return problem.has_wgmma and problem.is_same_3x3 and plain and small and enough

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        below = before.fed_back() if before is not None and problem.has_dx else None
        images, settings = (problem.conv.read, problem.conv.written), (problem.capacity, problem.precision)
        self.passes = ShiftedConvolution(owner, *images, *settings, problem.trains, below)

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.x, t.dy, to, t.dx, masks=self.dx_mask is not None)
