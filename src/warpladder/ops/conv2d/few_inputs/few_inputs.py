"""Convolutions of few input channels by fp32 multiply-adds, with weights or pixels in registers."""

from pathlib import Path
from typing import NamedTuple

from ....device import Array, Limits
from ...engine.kernels import Launches, OnDevice, ceil_div
from ..gradients import Gradients, columns, finish
from ..problem import FusedConv

FEW = Path(__file__).with_name("few.cu")
PACKED = Path(__file__).with_name("few_packed.cu")
ROWS = Path(__file__).with_name("rows.cu")
IMAGES = Path(__file__).with_name("few_images.cu")
#: Most weights of an output: a thread holds them all.
MOST = 32
#: Most and fewest outputs of a block, and its threads.
OUTPUTS, LEAST, THREADS = 64, 8, 128
#: As in few_images.cu: outputs and threads of a block; and largest number of images whose windows a block computes.
TOGETHER, WINDOWS, IMAGES_AT_MOST = 2, 256, 4
#: Warps of a block, as in rows.cu, and the largest side of a window.
WARPS, SIDE = 8, 7


def is_short(conv: FusedConv) -> bool:
    """True if each sum has at most MOST terms, and the stride is 1."""
    k, stride, _ = conv.window
    return stride == 1 and conv.read[0] * k * k <= MOST


class FewConvolution:
    """Forward kernel of a stride-1 convolution with at most MOST weights for each output."""

    def __init__(self, owner: OnDevice, conv: FusedConv) -> None:
        self.device, self.conv = owner.device, conv

    @staticmethod
    def supports(conv: FusedConv) -> bool:
        return is_short(conv)

    def launches(
        self, n: int, x: Array, w: Array, bias: Array, y: Array, argmax: Array | None, packed: Array | None = None
    ) -> Launches:
        """Launches that fill y[:n] from x[:n]: convolution, bias, then ReLU and pool if the problem has them.

        packed : uint16, bf16 copy of y with the channels last, a multiple of LEAST; None for no copy.
        """
        (c, h, width), (o, high, wide), (k, _, padding) = self.conv.read, self.conv.written, self.conv.window
        windows = n * ((high // 2) * (wide // 2) if self.conv.pool else ceil_div(high, 2) * ceil_div(wide, 2))
        blocks, enough, chunk = ceil_div(windows, THREADS), 4 * self.device.limits.multiprocessors, OUTPUTS
        while chunk > LEAST and blocks * ceil_div(o, chunk) < enough:
            chunk //= 2
        path, name = (FEW, "convolve_few") if packed is None else (PACKED, "convolve_few_packed")
        arrays = (x, w, bias, y, argmax) if packed is None else (x, w, bias, y, argmax, packed)
        kernel = self.device.kernel(path, f"{name}<{c}, {k}, {self.conv.after}>")
        grid = blocks, ceil_div(o, chunk)
        return [kernel.bind(grid, THREADS, *arrays, n, h, width, o, high, wide, padding, chunk)]


class RowsPlan(NamedTuple):
    """Split of `RowsGradient`: images of a part, ranges of the rows of dy, rows of a range, and parts."""

    images: int
    ranges: int
    rows: int
    parts: int


class RowsGradient:
    """Kernel for dw and db of a convolution of at most 4 channels, through the ReLU and pool after it, if any."""

    def __init__(self, owner: OnDevice, conv: FusedConv, capacity: int) -> None:
        self.device, self.conv = owner.device, conv
        (c, _, _), (outputs, high, wide), k = conv.read, conv.written, conv.window.k
        self.high, self.wide = (high // 2, wide // 2) if conv.pool else (high, wide)  # of dy
        self.channels = _channels(conv)
        self.lanes = 8 if outputs <= 8 else 16 if outputs <= 16 else 32
        many = 4 * self.device.limits.multiprocessors
        most = max(self._plan(n).parts for n in {*range(1, min(capacity, many) + 1), capacity})
        self.partials = owner.scratch((most * outputs * columns(c, k),))
        self.sums = owner.scratch((most, outputs))

    @staticmethod
    def supports(conv: FusedConv, limits: Limits) -> bool:
        """True if a lane can hold an output's weights of one channel, and shared memory the rows of a range."""
        rows = min(conv.written[1] // (2 if conv.pool else 1), WARPS)
        fits = conv.read[0] <= 4 and conv.window.k <= SIDE and not conv.upsamples and rows > 0
        return fits and _rows_shared(conv, rows)[2] <= limits.shared_opt_in

    def _plan(self, n: int) -> RowsPlan:
        """Several blocks for each multiprocessor, whose warps have equally many rows."""
        processors, outputs = self.device.limits.multiprocessors, self.conv.written[0]
        blocks = ceil_div(outputs, self.lanes) * self.conv.read[0] // self.channels  # of a part
        ranges = min(ceil_div(self.high, WARPS), ceil_div(3 * processors, n * blocks))
        rows = ceil_div(ceil_div(self.high, ranges), WARPS) * WARPS
        while rows > WARPS and _rows_shared(self.conv, rows)[2] > self.device.limits.shared_opt_in:
            rows -= WARPS
        ranges, images = ceil_div(self.high, rows), ceil_div(n, 4 * processors)
        return RowsPlan(images, ranges, rows, ceil_div(n, images) * ranges)

    def launches(self, n: int, x: Array, dy: Array, y: Array | None, argmax: Array | None, to: Gradients) -> Launches:
        """Launches that fill dw and db from x[:n] and dy[:n].

        y : output of a ReLU whose mask applies to dy; None without one. argmax : of the pool, whose gradient dy is.
        """
        plan, conv = self._plan(n), self.conv
        (c, h, w), o, (k, stride, padding) = conv.read, conv.written[0], conv.window
        after = "POOL" if argmax is not None else "PLAIN" if y is None else "RELU"
        kernel = self.device.kernel(ROWS, f"correlate_rows<{self.channels}, {k}, {stride}, {after}, {self.lanes}>")
        lines, pitch, shared = _rows_shared(conv, min(plan.rows, self.high))
        shape = n, c, h, w, o, self.high, self.wide, padding, plan.images, plan.ranges, plan.rows, lines, pitch
        grid = plan.parts, ceil_div(o, self.lanes), c // self.channels
        product = kernel.bind(grid, 32 * WARPS, x, dy, y, argmax, self.partials, self.sums, *shape, shared=shared)
        sums = self.sums, plan.parts
        return [product, finish(self.device, (self.partials, plan.parts), sums, (o, c, k, 1), to)]


def _channels(conv: FusedConv) -> int:
    """Input channels of a block of `RowsGradient`: all, if a lane can hold their weights, else one."""
    c, k = conv.read[0], conv.window.k
    return c if c * k * k <= MOST else 1


def _rows_shared(conv: FusedConv, rows: int) -> tuple[int, int, int]:
    """Lines and pitch in floats of a block's image for `rows` rows of dy, and its bytes of shared memory."""
    (k, stride, _), wide = conv.window, conv.written[2]
    pixels = 8 if stride == 1 else 4  # of a lane at a time, as in rows.cu
    lines = ((2 if conv.pool else 1) * rows - 1) * stride + k
    pitch = (ceil_div(wide, pixels) - 1) * pixels * stride + ceil_div((pixels - 1) * stride + k, 4) * 4
    return lines, pitch, 4 * _channels(conv) * lines * pitch + WARPS * 32 * 33 * (5 if conv.pool else 4)


class FewImagesGradient:
    """Kernel for dw and db before a pool, for up to IMAGES_AT_MOST images: one launch, which can update."""

    def __init__(self, owner: OnDevice, conv: FusedConv) -> None:
        self.device, self.conv = owner.device, conv

    @staticmethod
    def supports(conv: FusedConv, capacity: int, limits: Limits) -> bool:
        """True if there are at most IMAGES_AT_MOST images, and shared memory holds one of them twice."""
        return is_short(conv) and capacity <= IMAGES_AT_MOST and _padded(conv) <= limits.shared_per_block // 2

    def launches(self, n: int, x: Array, dy: Array, argmax: Array, to: Gradients) -> Launches:
        """Launches that fill dw and db from x[:n], the max pool's gradient dy[:n] and its argmax indices."""
        (c, h, w), written, (k, _, padding) = self.conv.read, self.conv.written, self.conv.window
        kernel = self.device.kernel(IMAGES, f"correlate_few_images<{c}, {k}>")
        arguments = x, dy, argmax, to.dw, to.db, n, h, w, *written, padding, *to.updated
        return [kernel.bind(ceil_div(written[0], TOGETHER), WINDOWS, *arguments, shared=_padded(self.conv))]


def _padded(conv: FusedConv) -> int:
    """Bytes of a padded float32 image."""
    (c, h, w), padding = conv.read, conv.window.padding
    return 4 * c * (h + 2 * padding) * (w + 2 * padding)
