"""Convolutions of few channels and outputs on tensor cores: a block holds some rows of an image, and all weights."""

from pathlib import Path

import numpy as np

from .....device import Array, Launch, Limits
from ....cost.plans import best
from ....engine.kernels import Launches, OnDevice, ceil_div
from ....engine.segments import Segment
from ...gradients import Gradients, IncomingGradient, columns, finish
from ..algorithm import ConvAlgorithm, ConvProblem
from ..dividers import inverse
from ..formats import HALF_FORMATS, FactorFormat
from .plan import STATIC, NarrowConvolve, NarrowCorrelate, NarrowShape, width

SOURCE = Path(__file__).with_name("narrow.cu")
PACK = Path(__file__).with_name("narrow_pack.cu")
WEIGHTS = Path(__file__).with_name("narrow_weights.cu")
#: Channels and outputs of a layer that these kernels support; most rows and columns of its window.
CHANNELS, WINDOW = (8, 16, 24, 32), 5
#: Threads of a block of narrow_pack.cu.
PACKING = 128


def fits(shape: NarrowShape, stride: int, precision: str, limits: Limits) -> bool:
    """True if shared memory holds all channels, outputs and taps of a convolution, in both directions."""
    if stride > 1 or shape.k > WINDOW or shape.padding >= shape.k or min(shape.made) < 1:
        return False
    if shape.read[0] not in CHANNELS or shape.written[0] not in CHANNELS:
        return False
    kind, least = HALF_FORMATS[precision], shape.bands[0]
    gradient = NarrowCorrelate(1, shape, kind, limits)
    largest = max(shape.shared(least, kind), shape.back.shared(1, kind), gradient.shared(least))
    return largest + STATIC <= limits.shared_opt_in and gradient.fits(least)


class NarrowPass:
    """Launcher of y of a convolution of few channels, or of its dx as the convolution in the other direction."""

    def __init__(self, owner: OnDevice, shape: NarrowShape, kind: FactorFormat) -> None:
        self.device, self.shape, self.kind = owner.device, shape, kind
        self.packed = owner.scratch((shape.packed(kind) // 4,), np.uint32)

    def launch(
        self, n: int, x: Array, pool_argmax: Array | None, y: Array, bias: Array | None = None, relu: bool = False,
        argmax: Array | None = None, mask: Array | None = None,
    ) -> Launch:  # fmt: skip
        """Launch that fills y[:n] from x[:n] and the packed weights, with bias, ReLU and pool if there are any.

        mask : array of y's shape; y is 0 where mask is not above 0. None for no mask.
        pool_argmax : if x is the gradient of a 2 x 2 pool, its argmax indices; else None.
        """
        shape, kind, pooled = self.shape, self.kind, _word(self.shape.pooled)
        rows = best(NarrowConvolve(n, shape, kind, self.device.limits))
        channels = width(shape.read[0]), width(shape.written[0])
        name = f"convolve_narrow<{kind.name}, {channels[0]}, {channels[1]}, {pooled}, {_word(shape.pool)}>"
        arrays = x, pool_argmax, self.packed, bias, mask, y, argmax
        numbers = *shape.read, *shape.written, shape.k, shape.padding, rows, int(relu), *map(inverse, shape.across)
        grid, block, shared = (n, ceil_div(shape.made[0], rows)), 32 * shape.warps(rows), shape.shared(rows, kind)
        return self.device.kernel(SOURCE, name).bind(grid, block, *arrays, *numbers, shared=shared)


class NarrowWeightGradient:
    """Launcher of dw and db of a convolution of few channels, for up to `capacity` images."""

    def __init__(self, owner: OnDevice, shape: NarrowShape, capacity: int, kind: FactorFormat) -> None:
        self.device, self.shape, self.kind = owner.device, shape, kind
        most, outputs = self._problem(1).most(capacity), shape.written[0]
        self.partials = owner.scratch((most * outputs * columns(shape.read[0], shape.k),))
        self.sums = owner.scratch((most, outputs))

    def _problem(self, n: int) -> NarrowCorrelate:
        return NarrowCorrelate(n, self.shape, self.kind, self.device.limits)

    def launches(self, n: int, x: Array, dy: Array, argmax: Array | None, to: Gradients) -> Launches:
        """Launches that fill dw and db. argmax : indices of the pool whose gradient is dy; else None."""
        shape, kind, problem = self.shape, self.kind, self._problem(n)
        rows, depth, blocks = best(problem)
        (o, _, wide), k, bands = shape.written, shape.k, ceil_div(shape.made[0], rows)
        name = f"correlate_narrow<{kind.name}, {k}, {width(o)}, {_word(shape.pool)}>"
        arrays = x, dy, argmax, self.partials, self.sums
        inverses = map(inverse, (wide + k - 1, wide, (wide + 1) // 2))
        numbers = n, *shape.read, *shape.written, shape.padding, rows, depth, bands, *inverses
        grid, block, shared = (blocks, problem.chunks), 32 * problem.warps, problem.shared(rows)
        product = self.device.kernel(WEIGHTS, name).bind(grid, block, *arrays, *numbers, shared=shared)
        shapes = o, shape.read[0], k, 1
        return [product, finish(self.device, (self.partials, blocks), (self.sums, blocks), shapes, to)]


class NarrowConvolution:
    """Launchers of y, dx and dw of a convolution of few channels, for up to `capacity` images; `owner` holds the
    scratch memory.

    precision : a key of `HALF_FORMATS`.
    trains, has_dx : True if there is a backward pass, and if it computes dx.
    """

    def __init__(
        self, owner: OnDevice, shape: NarrowShape, capacity: int, precision: str, trains: bool, has_dx: bool
    ) -> None:
        kind = HALF_FORMATS[precision]
        self.device, self.shape, self.kind = owner.device, shape, kind
        self.y = NarrowPass(owner, shape, kind)
        self.dx = NarrowPass(owner, shape.back, kind) if trains and has_dx else None
        self.dw = NarrowWeightGradient(owner, shape, capacity, kind) if trains else None

    def pack(self, w: Array) -> Launch:
        """Launch that packs the weights for y and dx, needed once after each change of the weights."""
        c, o = self.shape.read[0], self.shape.written[0]
        kernel = self.device.kernel(PACK, f"pack_narrow<{self.kind.name}>")
        blocks, backward = (width(o), None) if self.dx is None else (width(o) + width(c), self.dx.packed)
        return kernel.bind(blocks, PACKING, w, o, c, self.shape.k**2, width(o), width(c), self.y.packed, backward)

    def forward(self, n: int, x: Array, bias: Array | None, y: Array, relu: bool, argmax: Array | None) -> Launches:
        """Launches that fill y[:n] from x[:n], with bias, ReLU and pool if there are any."""
        return [self.y.launch(n, x, None, y, bias, relu, argmax)]

    def backward(
        self, n: int, x: Array, dy: Array, argmax: Array | None, to: Gradients, dx: Array | None, mask: Array | None
    ) -> Launches:
        """Launches that fill dw and db from x[:n] and dy[:n] (the pool's gradient if argmax is given), and dx[:n],
        masked by `mask`.
        """
        assert self.dw is not None
        found = self.dw.launches(n, x, dy, argmax, to)
        if self.dx is not None and dx is not None:
            found.append(self.dx.launch(n, dy, argmax, dx, mask=mask))
        return found


def _word(yes: bool) -> str:
    return "true" if yes else "false"


class Narrow(ConvAlgorithm):
    """Convolution of 8 or 16 channels and up to 32 outputs, stride 1, windows up to 5 x 5, by small kernels."""

    uses_halves = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        conv = problem.conv
        # of more channels implicit/ is faster (docs/notes/tensor-conv2d.md)
        if conv.upsamples or conv.read[0] > 16:
            return False
        return fits(cls._shape(problem), conv.window.stride, problem.precision, problem.limits)

    @staticmethod
    def _shape(problem: ConvProblem) -> NarrowShape:
        conv = problem.conv
        return NarrowShape(conv.read, conv.written, conv.window.k, conv.window.padding, conv.pool)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        settings = problem.capacity, problem.precision, problem.trains, problem.has_dx
        self.passes = NarrowConvolution(owner, self._shape(problem), *settings)
        # The kernels sum dy for the bias; after a ReLU without a pool another kernel has to mask it.
        masks = problem.trains and not problem.conv.pool and self.relu_output is not None
        self.incoming = IncomingGradient(owner, problem.conv.written, problem.capacity, False) if masks else None

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y, self.problem.conv.relu, self.argmax)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        found = [] if self.incoming is None else self.incoming.launches(n, t.dy, self.relu_output, None)[0]
        return found + self.passes.backward(n, t.x, t.dy, self.argmax, to, t.dx, self.dx_mask)
