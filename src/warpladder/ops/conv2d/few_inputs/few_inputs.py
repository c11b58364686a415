"""Convolutions of few input channels by fp32 multiply-adds, with weights or pixels in registers."""

from pathlib import Path
from typing import NamedTuple

from ....device import Array, Limits
from ...engine.kernels import Launches, OnDevice, ceil_div
from ..gradients import Gradients, columns, finish
from ..problem import FusedConv, Image

FEW = Path(__file__).with_name("few.cu")
PACKED = Path(__file__).with_name("few_packed.cu")
SPARSE = Path(__file__).with_name("sparse.cu")
IMAGES = Path(__file__).with_name("few_images.cu")
#: Most weights of an output: a thread holds them all.
MOST = 32
#: Most and fewest outputs of a block, and its threads.
OUTPUTS, LEAST, THREADS = 64, 8, 128
#: As in few_images.cu: outputs and threads of a block; and largest number of images whose windows a block computes.
TOGETHER, WINDOWS, IMAGES_AT_MOST = 2, 256, 4
#: Fewest windows of a range of `PooledGradient`, and their unit: half as many as a warp holds.
SHORTEST = 16


def is_short(conv: FusedConv, any_stride: bool = False) -> bool:
    """True if each sum has at most MOST terms, and the stride is 1 or `any_stride`."""
    k, stride, _ = conv.window
    return (any_stride or stride == 1) and conv.read[0] * k * k <= MOST


def lines_of(written: Image, k: int, windows: int) -> int:
    """Largest number of rows of a padded image that `windows` consecutive 2 x 2 windows of y read."""
    down, across = written[1] // 2, written[2] // 2
    rows = windows // across if windows % across == 0 else 1 if across % windows == 0 else (windows - 2) // across + 2
    return 2 * min(rows, down) + k - 1


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


class FewGradient:
    """Kernel for dw and db of a convolution with at most MOST weights for each output, and of the ReLU after it, if
    any.
    """

    def __init__(self, owner: OnDevice, conv: FusedConv, capacity: int) -> None:
        self.device, self.conv, outputs = owner.device, conv, conv.written[0]
        self.most = min(capacity, ceil_div(4 * owner.device.limits.multiprocessors, outputs))
        self.partials = owner.scratch((self.most * outputs * columns(conv.read[0], conv.window.k),))
        self.sums = owner.scratch((self.most, outputs))

    @staticmethod
    def supports(conv: FusedConv) -> bool:
        return is_short(conv, any_stride=True)

    def launches(self, n: int, x: Array, dy: Array, y: Array | None, to: Gradients) -> Launches:
        """Launches that fill dw and db. y : output of a ReLU whose mask applies to dy; None without one."""
        (c, h, w), (o, high, wide), (k, stride, padding) = self.conv.read, self.conv.written, self.conv.window
        each = ceil_div(n, self.most)
        parts = ceil_div(n, each)
        kernel = self.device.kernel(FEW, f"correlate_few<{c}, {k}>")
        shape = n, h, w, o, high, wide, stride, padding, each
        product = kernel.bind((o, parts), 256, x, dy, y, self.partials, self.sums, *shape)
        return [product, finish(self.device, (self.partials, parts), (self.sums, parts), (o, c, k, 1), to)]


class PooledPlan(NamedTuple):
    """Split of `PooledGradient`: warps of a block, images of a part, ranges of an image, windows of a range, parts."""

    warps: int
    images: int
    ranges: int
    windows: int
    parts: int


class PooledGradient:
    """Kernel for dw and db of few input channels, a ReLU and a 2 x 2 pool; it reads only the argmax pixels' patches."""

    def __init__(self, owner: OnDevice, conv: FusedConv, capacity: int) -> None:
        self.device, self.conv = owner.device, conv
        many = 2 * self.device.limits.multiprocessors
        most = max(self._plan(n).parts for n in {*range(1, min(capacity, many) + 1), capacity})
        self.partials = owner.scratch((most * conv.written[0] * columns(conv.read[0], conv.window.k),))
        self.sums = owner.scratch((most, conv.written[0]))

    @staticmethod
    def supports(conv: FusedConv, limits: Limits) -> bool:
        """True if a thread can hold an output's weights, and shared memory an image."""
        lines = conv.read[1] + 2 * conv.window.padding
        return is_short(conv) and _shared(conv, lines, 8) <= limits.shared_opt_in

    def _plan(self, n: int) -> PooledPlan:
        processors, (o, high, wide) = self.device.limits.multiprocessors, self.conv.written
        windows, warps = (high // 2) * (wide // 2), ceil_div(o, 32)  # of an image
        ranges = min(ceil_div(windows, SHORTEST), ceil_div(8 * processors, n * warps))
        each = ceil_div(ceil_div(windows, ranges), SHORTEST) * SHORTEST
        ranges = ceil_div(windows, each)
        # Warps that share an image and leave a block for each multiprocessor.
        most = max(1, min(8, n * warps * ranges // processors))
        images = ceil_div(n, 2 * processors)
        return PooledPlan(ceil_div(warps, ceil_div(warps, most)), images, ranges, each, ceil_div(n, images) * ranges)

    def launches(self, n: int, x: Array, dy: Array, argmax: Array, to: Gradients) -> Launches:
        """Launches that fill dw and db from x[:n], the max pool's gradient dy[:n] and its argmax indices."""
        plan, (c, h, w), written, (k, _, padding) = self._plan(n), self.conv.read, self.conv.written, self.conv.window
        lines = lines_of(written, k, plan.windows)
        kernel = self.device.kernel(SPARSE, f"correlate_argmax<{c}, {k}>")
        shape = n, h, w, *written, padding, plan.images, plan.ranges, plan.windows, lines
        grid, block = (plan.parts, ceil_div(written[0], 32 * plan.warps)), 32 * plan.warps
        shared = _shared(self.conv, lines, plan.warps)
        product = kernel.bind(grid, block, x, dy, argmax, self.partials, self.sums, *shape, shared=shared)
        sums = self.sums, plan.parts
        return [product, finish(self.device, (self.partials, plan.parts), sums, (written[0], c, k, 1), to)]


class FewImagesGradient:
    """Kernel for dw and db like `PooledGradient`, for up to IMAGES_AT_MOST images: one launch, which can update."""

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


def _shared(conv: FusedConv, lines: int, warps: int) -> int:
    """Bytes of shared memory of a block of `correlate_argmax` that holds `lines` rows of an image."""
    return 4 * conv.read[0] * lines * (conv.read[2] + 2 * conv.window.padding) + warps * 32 * 33 * 5
