"""Convolutions as implicit GEMMs on tensor cores, with shapes that are compiled in: y, dx and dw."""

from pathlib import Path

import numpy as np

from .....device import Array, Device, Launch
from ....cost.plans import Planner, best
from ....engine.kernels import Launches, OnDevice, ceil_div
from ....engine.segments import Segment
from ...gradients import Gradients, finish
from ..algorithm import ConvAlgorithm, ConvProblem, has_wgmma
from ..formats import HALF_FORMATS, FactorFormat
from .plan import ImplicitProblem, ImplicitShape, ImplicitTile
from .plan_weights import CorrelateTile, ImplicitCorrelate
from .plan_wide import WideProblem, WideTile

SOURCE = Path(__file__).with_name("implicit.cu")
WIDE = Path(__file__).with_name("implicit_wide.cu")
PACK = Path(__file__).with_name("implicit_pack.cu")
WEIGHTS = Path(__file__).with_name("implicit_weights.cu")
#: Threads of a block of implicit_pack.cu.
PACKING = 256
#: Cycles of `convolve_implicit` next to its model's, at least, where channels are many: with stride 1, and with others
#: (docs/notes/tensor-conv2d.md).
NARROW, NARROW_STRIDED = 1.04, 0.75
#: How a gradient is stored, by its other array: as is, with a ReLU's output, or with a pool's argmax indices.
STORED, MASKED, POOLED = range(3)
#: How a gradient is stored, and its other array.
Stored = tuple[int, Array | None]
#: Tile of a block, the grid, and bytes of shared memory.
Planned = tuple[ImplicitTile | WideTile, tuple[int, int], int]


class ImplicitPass:
    """Launcher of y of a convolution, or of its dx, for up to `capacity` images; `owner` holds scratch memory."""

    source, kernel, chunked = SOURCE, "convolve_implicit", False

    def __init__(self, owner: OnDevice, shape: ImplicitShape, capacity: int, kind: FactorFormat) -> None:
        self.device, self.shape, self.kind = owner.device, shape, kind
        self.bn = self.planned(capacity, None)[0].bn
        self.packed = owner.scratch((shape.packed(self.bn, kind) // 4,), np.uint32)

    def planned(self, n: int, bn: int | None) -> Planned:
        """Plan of n images, with bn outputs of a block if it is not None."""
        problem = ImplicitProblem(n, self.shape, self.kind, self.device.limits, bn)
        return (tile := best(problem)), problem.blocks(tile), problem.shared(tile)

    @property
    def shape_numbers(self) -> tuple[int, ...]:
        """Template arguments before a gradient's kind."""
        return int(self.shape.back), int(self.shape.few)

    def launch(
        self, n: int, x: Array, other: Stored, y: Array, bias: Array | None = None, relu: bool = False,
        argmax: Array | None = None, mask: Array | None = None,
    ) -> Launch:  # fmt: skip
        """Launch that fills y[:n] from x[:n] and the packed weights, with bias, ReLU and pool if there are any.

        other : how x is stored, STORED, MASKED or POOLED, and its other array.
        mask : array of y's shape; y is 0 where mask is not above 0. None for no mask.
        """
        shape, (gradient, second) = self.shape, other
        tile, grid, shared = self.planned(n, self.bn)
        numbers = *self.shape_numbers, gradient, int(shape.pool), *shape.read, *shape.written
        name = f"{self.kernel}<{self.kind.name}, {', '.join(map(str, (*numbers, *shape.window, *tile)))}>"
        masks, pools = second if gradient == MASKED else None, second if gradient == POOLED else None
        arrays = x, masks, pools, self.packed, bias, mask, y, argmax
        kernel = self.device.kernel(self.source, name)
        return kernel.bind(grid, 32 * tile.warps, *arrays, n, int(relu), shared=shared)


class WidePass(ImplicitPass):
    """Launcher of y or dx by warpgroup products, for many channels."""

    source, kernel, chunked = WIDE, "convolve_wide", True

    def planned(self, n: int, bn: int | None) -> Planned:
        problem = WideProblem(n, self.shape, self.kind, self.device.limits, bn)
        return (tile := best(problem)), problem.blocks(tile), problem.shared(tile)

    @property
    def shape_numbers(self) -> tuple[int, ...]:
        return (int(self.shape.back),)


def conv_pass(owner: OnDevice, shape: ImplicitShape, capacity: int, kind: FactorFormat) -> ImplicitPass:
    """Launcher of y or dx: by warpgroup products where they are the faster ones by the cost models."""
    wide = WideProblem(capacity, shape, kind, owner.device.limits)
    if has_wgmma(owner.device) and any(wide.plans()):
        narrow = ImplicitProblem(capacity, shape, kind, owner.device.limits)
        share = NARROW if shape.window.stride == 1 else NARROW_STRIDED
        if wide.cycles(best(wide)) < share * narrow.cycles(best(narrow)):
            return WidePass(owner, shape, capacity, kind)
    return ImplicitPass(owner, shape, capacity, kind)


class ImplicitWeightGradient:
    """Launcher of dw and db of a convolution, for up to `capacity` images.

    fold : factor of the upsampling before the convolution; 1 for none. With one `shape` is that of the transposed
    convolution: `x` and `dy` change places.
    """

    def __init__(self, owner: OnDevice, shape: ImplicitShape, capacity: int, kind: FactorFormat, fold: int = 1) -> None:
        self.device, self.shape, self.kind, self.fold = owner.device, shape, kind, fold
        limits = owner.device.limits
        self.plan: Planner[CorrelateTile] = Planner(lambda n: ImplicitCorrelate(n, shape, kind, limits), capacity)
        self.partials = owner.scratch((self.plan.partials,))
        parts = self.plan.partials // ImplicitCorrelate(1, shape, kind, limits).numbers
        self.sums = owner.scratch((parts, shape.written[0]))

    def launches(
        self, n: int, x: Array, dy: Array, other: Stored, to: Gradients, sums: tuple[Array, int] | None = None
    ) -> Launches:
        """Launches that fill dw and db. other : how dy is stored, and its other array (`ImplicitPass.launch`).

        sums : partial sums for db, and the number of their rows; None for the kernel's own sums of dy.
        """
        shape, tile, (gradient, second) = self.shape, self.plan(n), other
        problem = ImplicitCorrelate(n, shape, self.kind, self.device.limits)
        (c, _, _), (o, _, _), window = shape.read, shape.written, shape.window
        numbers = int(shape.few), gradient, *shape.read, *shape.written, *window, *tile[:-2]
        name = f"correlate_implicit<{self.kind.name}, {', '.join(map(str, numbers))}>"
        masks, pools = second if gradient == MASKED else None, second if gradient == POOLED else None
        grid = tile.parts, ceil_div(o, tile.outputs), problem.across(tile.channels, tile.tap_rows)
        arrays = x, dy, masks, pools, self.partials, self.sums
        kernel, shared = self.device.kernel(WEIGHTS, name), problem.shared(tile)
        product = kernel.bind(grid, 32 * tile.warps, *arrays, n, tile.depth, shared=shared)
        partials, sums = (self.partials, tile.parts), sums or (self.sums, tile.parts)
        return [product, finish(self.device, partials, sums, (o, c, window.k, self.fold), to)]


def pack(
    device: Device, w: Array, shape: ImplicitShape, along: ImplicitPass | None, back: ImplicitPass | None, fold: int = 1
) -> Launch:
    """Launch that packs weights for a convolution of this shape and for the way back, whichever there are.

    fold : factor of the upsampling before the convolution, whose transposed form then has this shape; 1 for none.
    """
    c, o, some = shape.read[0], shape.written[0], [each for each in (along, back) if each is not None]
    bn, back_bn = (0 if each is None else each.bn for each in (along, back))
    half = ceil_div(o, bn) * bn if bn else 0
    blocks = half + (ceil_div(c, back_bn) * back_bn if back_bn else 0)
    chunked = (0 if each is None else int(each.chunked) for each in (along, back))
    numbers = o, c, shape.window.k, int(shape.few), bn, back_bn, *chunked, half
    packed = (None if each is None else each.packed for each in (along, back))
    kernel = device.kernel(PACK, f"pack_implicit<{some[0].kind.name}, {fold}>")
    return kernel.bind(blocks, PACKING, w, *numbers, *packed)


class ImplicitConvolution:
    """Launchers of y, dx and dw of a convolution, for up to `capacity` images; `owner` holds the scratch memory.

    precision : a key of `HALF_FORMATS`.
    trains, has_dx : True if there is a backward pass, and if it computes dx.
    """

    def __init__(
        self, owner: OnDevice, shape: ImplicitShape, capacity: int, precision: str, trains: bool, has_dx: bool
    ) -> None:
        kind = HALF_FORMATS[precision]
        self.device, self.shape, self.kind = owner.device, shape, kind
        self.y = conv_pass(owner, shape, capacity, kind)
        self.dx = conv_pass(owner, shape.reversed, capacity, kind) if trains and has_dx else None
        self.dw = ImplicitWeightGradient(owner, shape, capacity, kind) if trains else None

    def pack(self, w: Array) -> Launch:
        """Launch that packs the weights for y and dx, needed once after each change of the weights."""
        return pack(self.device, w, self.shape, self.y, self.dx)

    def forward(self, n: int, x: Array, bias: Array | None, y: Array, relu: bool, argmax: Array | None) -> Launches:
        """Launches that fill y[:n] from x[:n], with bias, ReLU and pool if there are any."""
        return [self.y.launch(n, x, (STORED, None), y, bias, relu, argmax)]

    def backward(
        self, n: int, x: Array, dy: Array, other: Stored, to: Gradients, dx: Array | None,
        mask: Array | None
    ) -> Launches:  # fmt: skip
        """Launches that fill dw and db from x[:n] and dy[:n], and dx[:n], masked by `mask`.

        other : how dy is stored, and its other array, as `ImplicitPass.launch` has it.
        """
        assert self.dw is not None
        found = self.dw.launches(n, x, dy, other, to)
        if self.dx is not None and dx is not None:
            found.append(self.dx.launch(n, dy, other, dx, mask=mask))
        return found


def fits(problem: ConvProblem, shape: ImplicitShape, y: ImplicitShape, dx: ImplicitShape) -> bool:
    """True if blocks have room for y of a problem, and, where they are computed, for dx, and for dw by `shape`."""
    kind, n, limits = HALF_FORMATS[problem.precision], problem.capacity, problem.limits
    passes = [y, dx] if problem.trains and problem.has_dx else [y]
    products = all(any(ImplicitProblem(n, each, kind, limits).plans()) for each in passes)
    return products and (not problem.trains or any(ImplicitCorrelate(n, shape, kind, limits).plans()))


class Implicit(ConvAlgorithm):
    """Convolution of any window, stride, padding and channels, not upsampled, by kernels compiled for its shape."""

    uses_halves = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        shape = cls._shape(problem)
        return not problem.conv.upsamples and fits(problem, shape, y=shape, dx=shape.reversed)

    @staticmethod
    def _shape(problem: ConvProblem) -> ImplicitShape:
        conv = problem.conv
        return ImplicitShape(conv.read, conv.written, conv.window, pool=conv.pool)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        settings = problem.capacity, problem.precision, problem.trains, problem.has_dx
        self.passes = ImplicitConvolution(owner, self._shape(problem), *settings)

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y, self.problem.conv.relu, self.argmax)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        other: Stored = STORED, None
        if self.argmax is not None:
            other = POOLED, self.argmax
        elif self.relu_output is not None:
            other = MASKED, self.relu_output
        return self.passes.backward(n, t.x, t.dy, other, to, t.dx, self.dx_mask)
