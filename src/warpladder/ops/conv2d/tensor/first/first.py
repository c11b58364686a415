"""First convolution of a net on tensor cores: few input channels, many outputs, ReLU and 2 x 2 pool."""

from pathlib import Path
from typing import NamedTuple

from .....device import Array
from ....engine.kernels import Launches, OnDevice, ceil_div
from ....engine.segments import Segment
from ...gradients import Gradients, columns, finish
from ...problem import FusedConv, Image
from ..algorithm import ConvAlgorithm, ConvProblem
from ..formats import HALF_FORMATS, FactorFormat

FORWARD = Path(__file__).with_name("first.cu")
WEIGHTS = Path(__file__).with_name("first_weights.cu")
#: Most terms of a sum, two steps of the tensor cores; outputs come in sixteens; below LEAST few_inputs is as fast.
MOST, SIXTEEN, LEAST = 32, 16, 32
#: Threads of a block, its warps, and the bytes of a stage of gradients and argmax indices in `correlate_first`.
THREADS, WARPS, STAGE = 256, 8, 40960
#: Outputs of a warp of `correlate_first`, windows that it multiplies at a time; most outputs of a block.
OF_WARP, WINDOWS, CHUNK = 64, 16, 256


def fits(problem: ConvProblem) -> bool:
    """True if sums are short, the stride is 1, outputs are a multiple of 16, and shared memory holds image rows."""
    conv = problem.conv
    (k, stride, _), (o, high, wide) = conv.window, conv.written
    if stride != 1 or conv.read[0] * k * k > MOST or o % SIXTEEN or o < LEAST:
        return False
    if (high // 2) * (wide // 2) < 4:  # a lane of convolve_first has up to four windows, of two pictures at most
        return False
    kind, lines = HALF_FORMATS[problem.precision], high // 2 * 2 + k - 1
    shared = max(_shared_forward(conv, lines, 1, SIXTEEN, kind), _shared_weights(conv, lines, kind, 2))
    return shared <= problem.limits.shared_opt_in


def _shared_forward(conv: FusedConv, lines: int, images: int, chunk: int, kind: FactorFormat) -> int:
    """Bytes of shared memory of `convolve_first`: weights, biases and scales of outputs, and rows of images."""
    (c, _, wide), padding = conv.read, conv.window.padding
    return (64 * kind.copies + 8) * chunk + 4 * images * c * lines * (wide + 2 * padding)


def _pitches(conv: FusedConv, lines: int) -> tuple[int, int]:
    """Pitch in words of a row and of a channel of pairs: k and k k more than multiples of 8, against bank conflicts."""
    k, wide = conv.window.k, conv.read[2] + 2 * conv.window.padding
    pitch = wide + (k - wide) % 8
    plane = lines * pitch
    return pitch, plane + (k * k - plane) % 8


def _shared_weights(conv: FusedConv, lines: int, kind: FactorFormat, stages: int) -> int:
    """Bytes of shared memory of a block of `correlate_first`: its ring, pairs, an image, and corners of windows."""
    (c, _, wide), (_, high, across), padding = conv.read, conv.written, conv.window.padding
    _, plane = _pitches(conv, lines)
    corners = ceil_div((high // 2) * (across // 2), WINDOWS) * WINDOWS
    return stages * STAGE + 4 * (kind.copies * c * plane + c * lines * (wide + 2 * padding) + corners)


def lines_of(written: Image, k: int, windows: int) -> int:
    """Largest number of rows of a padded image that `windows` consecutive 2 x 2 windows of y read."""
    down, across = written[1] // 2, written[2] // 2
    rows = windows // across if windows % across == 0 else 1 if across % windows == 0 else (windows - 2) // across + 2
    return 2 * min(rows, down) + k - 1


class FirstConvolution:
    """Forward kernel of a net's first convolution: y after ReLU and pool, and the pool's argmax indices."""

    def __init__(self, owner: OnDevice, conv: FusedConv, precision: str) -> None:
        self.device, self.conv, self.kind = owner.device, conv, HALF_FORMATS[precision]

    def launches(
        self, n: int, x: Array, w: Array, bias: Array, y: Array, argmax: Array | None, packed: Array | None = None
    ) -> Launches:  # fmt: skip
        """Launches that fill y[:n] and the pool's argmax[:n] from x[:n].

        packed : uint16, of the shape of y with the channels last, a copy of y in bf16; None for no copy.
        """
        conv, (o, high, wide), limits = self.conv, self.conv.written, self.device.limits
        windows, most = (high // 2) * (wide // 2), 256 // self.kind.copies  # windows of a picture, and of a block
        images, ranges = max(1, min(n, most // windows)), ceil_div(windows, most)
        lines = lines_of(conv.written, conv.window.k, min(windows, most))
        chunk = min(o, CHUNK)
        while images > 1 and _shared_forward(conv, lines, images, chunk, self.kind) > limits.shared_opt_in // 2:
            images //= 2
        blocks, slots = ceil_div(n, images) * ranges, 2 * limits.multiprocessors  # two blocks to a multiprocessor
        # Halves of the outputs have the same fragments to build: only where half of the slots would be empty.
        while chunk > SIXTEEN and (
            2 * blocks * ceil_div(o, chunk) <= slots
            or _shared_forward(conv, lines, images, chunk, self.kind) > limits.shared_opt_in
        ):
            chunk = ceil_div(chunk // 2, SIXTEEN) * SIXTEEN
        kernel = self.device.kernel(FORWARD, f"convolve_first<{self.kind.name}>")
        shape = n, *conv.read, *conv.written, conv.window.k, conv.window.padding, images, ranges, lines, chunk
        grid, shared = (blocks, ceil_div(o, chunk)), _shared_forward(conv, lines, images, chunk, self.kind)
        return [kernel.bind(grid, THREADS, x, w, bias, y, argmax, packed, *shape, shared=shared)]


class FirstPlan(NamedTuple):
    """Split of `FirstGradient`: groups of 64 outputs of a block, images of a part, ranges of an image, windows of a
    range, parts.
    """

    groups: int
    images: int
    ranges: int
    windows: int
    parts: int


class FirstGradient:
    """Kernel for dw and db of a net's first convolution, from the pool's gradient, for up to `capacity` images."""

    def __init__(self, owner: OnDevice, conv: FusedConv, capacity: int, precision: str) -> None:
        self.device, self.conv, self.kind = owner.device, conv, HALF_FORMATS[precision]
        many = 2 * self.device.limits.multiprocessors
        most = max(self._plan(n).parts for n in {*range(1, min(capacity, many) + 1), capacity})
        self.partials = owner.scratch((most * conv.written[0] * columns(conv.read[0], conv.window.k),))
        self.sums = owner.scratch((most, conv.written[0]))

    def _plan(self, n: int) -> FirstPlan:
        """Plan with a block for each multiprocessor, if there are enough images or windows."""
        o, high, wide = self.conv.written
        groups = min(4, 1 << (ceil_div(o, OF_WARP) - 1).bit_length())
        blocks = ceil_div(o, OF_WARP * groups)  # of a part
        processors = max(1, self.device.limits.multiprocessors // blocks)
        images, windows = ceil_div(n, processors), (high // 2) * (wide // 2)
        parts, each = ceil_div(n, images), WINDOWS * WARPS // groups  # windows that a block multiplies at a time
        turns = ceil_div(ceil_div(windows, each), max(1, processors // parts))
        ranges = ceil_div(windows, turns * each)
        return FirstPlan(groups, images, ranges, turns * each, parts * ranges)

    def launches(self, n: int, x: Array, dy: Array, argmax: Array, to: Gradients) -> Launches:
        """Launches that fill dw and db from x[:n], the max pool's gradient dy[:n] and its argmax indices."""
        plan, conv, (o, high, wide), k = self._plan(n), self.conv, self.conv.written, self.conv.window.k
        lines = lines_of(conv.written, k, min(plan.windows, (high // 2) * (wide // 2)))
        shared = {stages: _shared_weights(conv, lines, self.kind, stages) for stages in (2, 3)}
        stages = 3 if shared[3] <= self.device.limits.shared_opt_in else 2
        kernel = self.device.kernel(WEIGHTS, f"correlate_first<{self.kind.name}, {stages}>")
        split = plan.images, plan.ranges, plan.windows, lines, *_pitches(conv, lines), plan.groups
        shape = n, *conv.read, *conv.written, k, conv.window.padding
        arguments = x, dy, argmax, self.partials, self.sums, *shape, *split
        grid = plan.parts, ceil_div(o, OF_WARP * plan.groups)
        product = kernel.bind(grid, THREADS, *arguments, shared=shared[stages])
        shapes = o, conv.read[0], k, 1
        return [product, finish(self.device, (self.partials, plan.parts), (self.sums, plan.parts), shapes, to)]


class First(ConvAlgorithm):
    """First layer of few inputs and many outputs with a pool: each lane builds fragments of windows in registers.

    With fewer images than a quarter of the multiprocessors, multiply-adds are faster: most of the GPU is idle, and a
    lane takes long to build its fragments.
    """

    packs = True
    uses_halves = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        enough = 4 * problem.capacity >= problem.limits.multiprocessors
        return enough and problem.is_first and problem.conv.pool and fits(problem)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        self.y_pass = FirstConvolution(owner, problem.conv, problem.precision)
        if problem.trains:
            self.gradient = FirstGradient(owner, problem.conv, problem.capacity, problem.precision)

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, self.argmax, self.packed)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        assert self.argmax is not None
        return self.gradient.launches(n, t.x, t.dy, self.argmax, to)
