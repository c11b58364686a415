"""Convolutions of few inputs, a picture's colours: kernels that keep all that an output needs in a thread's registers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....device import Array, Limits
from ...engine.kernels import Launches, OnDevice, ceil_div
from ..gradients import Gradients, columns, finish
from ..products import Image

FEW = Path(__file__).with_name("few.cu")
PACKED = Path(__file__).with_name("few_packed.cu")
SPARSE = Path(__file__).with_name("sparse.cu")
IMAGES = Path(__file__).with_name("few_images.cu")

#: Weights of an output at most: a thread keeps them all.
MOST = 32

#: Outputs of a block at most and at least, threads of a block.
OUTPUTS, LEAST, THREADS = 64, 8, 128

#: As in few_images.cu: outputs and threads of a block; and images of a batch, at most, whose windows so few blocks go
#: through.
TOGETHER, WINDOWS, IMAGES_AT_MOST = 2, 256, 4

#: Windows of a range of `WinnersGradient`, at least, and as a multiple: half as many as a warp keeps.
SHORTEST = 16


class FewConvolution:
    """The forward pass of a convolution of stride 1 with at most MOST weights for each output."""

    def __init__(self, owner: OnDevice, read: Image, written: Image, k: int, padding: int) -> None:
        self.device, self.read, self.written, self.k, self.padding = owner.device, read, written, k, padding

    @staticmethod
    def takes(read: Image, k: int, stride: int) -> bool:
        return stride == 1 and read[0] * k * k <= MOST

    def launches(
        self,
        n: int,
        x: Array,
        w: Array,
        bias: Array,
        y: Array,
        rectify: bool,
        pool: bool,
        winner: Array | None,
        packed: Array | None = None,
    ) -> Launches:
        """y[:n] from x[:n], + bias, then ReLU and a 2 x 2 pool where they are wanted.

        packed : uint16, of the shape of y with the channels last, a multiple of LEAST, where y goes in bf16 as well.
        """
        (c, h, width), (o, high, wide) = self.read, self.written
        windows = n * ((high // 2) * (wide // 2) if pool else ceil_div(high, 2) * ceil_div(wide, 2))
        chunk = OUTPUTS
        while (
            chunk > LEAST and ceil_div(windows, THREADS) * ceil_div(o, chunk) < 4 * self.device.limits.multiprocessors
        ):
            chunk //= 2
        after = "POOL" if pool else "RECTIFY" if rectify else "PLAIN"
        grid, shape = (
            (ceil_div(windows, THREADS), ceil_div(o, chunk)),
            (n, h, width, o, high, wide, self.padding, chunk),
        )
        if packed is None:
            return [
                self.device.kernel(FEW, f"convolve_few<{c}, {self.k}, {after}>").bind(
                    grid, THREADS, x, w, bias, y, winner, *shape
                )
            ]
        kernel = self.device.kernel(PACKED, f"convolve_few_packed<{c}, {self.k}, {after}>")
        return [kernel.bind(grid, THREADS, x, w, bias, y, winner, packed, *shape)]


class FewGradient:
    """dw and db of a convolution with at most MOST weights for each output, and of the ReLU after it, if there is one."""

    def __init__(
        self, owner: OnDevice, read: Image, written: Image, k: int, stride: int, padding: int, capacity: int
    ) -> None:
        self.device, self.read, self.written, self.window = owner.device, read, written, (k, stride, padding)
        self.slabs = min(capacity, ceil_div(4 * owner.device.limits.multiprocessors, written[0]))
        self.parts = owner.scratch((self.slabs * written[0] * columns(read[0], k),))
        self.sums = owner.scratch((self.slabs, written[0]))

    @staticmethod
    def takes(read: Image, k: int) -> bool:
        return read[0] * k * k <= MOST

    def launches(self, n: int, x: Array, dy: Array, y: Array | None, to: Gradients) -> Launches:
        """Fill dw and db. y: of a ReLU, None without one."""
        (c, h, w), (o, high, wide), (k, stride, padding) = self.read, self.written, self.window
        slab = ceil_div(n, self.slabs)
        slabs = ceil_div(n, slab)
        kernel = self.device.kernel(FEW, f"correlate_few<{c}, {k}>")
        product = kernel.bind(
            (o, slabs), 256, x, dy, y, self.parts, self.sums, n, h, w, o, high, wide, stride, padding, slab
        )
        return [product, finish(self.device, self.parts, slabs, self.sums, slabs, (o, c, k, 1), to)]


class WinnersGradient:
    """dw and db of a convolution with few inputs, a ReLU and a 2 x 2 pool, straight from the pool's gradient.

    read : (c, h, w), its input.
    written : (o, oh, ow), its own output, before the pool.
    """

    @dataclass(frozen=True)
    class Cut:
        """Warps in a block, images in a part, and how many ranges of how many windows an image is cut into."""

        warps: int
        slab: int
        ranges: int
        windows: int

    def __init__(self, owner: OnDevice, read: Image, written: Image, k: int, padding: int, capacity: int) -> None:
        self.device, self.read, self.written, self.k, self.padding = owner.device, read, written, k, padding
        most = max(
            self._parts(n) for n in {*range(1, min(capacity, 2 * self.device.limits.multiprocessors) + 1), capacity}
        )
        self.parts = owner.scratch((most * written[0] * columns(read[0], k),))
        self.sums = owner.scratch((most, written[0]))

    @staticmethod
    def takes(read: Image, k: int, stride: int, padding: int, limits: Limits) -> bool:
        """Whether a thread can keep an output's weights, and a block an image."""
        return (
            stride == 1
            and read[0] * k * k <= MOST
            and _shared(read, padding, read[1] + 2 * padding, 8) <= limits.shared_opt_in
        )

    def _cut(self, n: int) -> Cut:
        processors, (o, high, wide) = self.device.limits.multiprocessors, self.written
        windows, warps = (high // 2) * (wide // 2), ceil_div(o, 32)  # of an image
        ranges = min(ceil_div(windows, SHORTEST), ceil_div(8 * processors, n * warps))
        each = ceil_div(ceil_div(windows, ranges), SHORTEST) * SHORTEST
        ranges = ceil_div(windows, each)
        most = max(
            1, min(8, n * warps * ranges // processors)
        )  # that share an image and leave a block for each multiprocessor
        return self.Cut(ceil_div(warps, ceil_div(warps, most)), ceil_div(n, 2 * processors), ranges, each)

    def _lines(self, cut: Cut) -> int:
        """Lines of an image with its padding that a range sees at most."""
        across, down = self.written[2] // 2, self.written[1] // 2
        rows = (
            cut.windows // across
            if cut.windows % across == 0
            else 1
            if across % cut.windows == 0
            else (cut.windows - 2) // across + 2
        )
        return 2 * min(rows, down) + self.k - 1

    def _parts(self, n: int) -> int:
        cut = self._cut(n)
        return ceil_div(n, cut.slab) * cut.ranges

    def launches(self, n: int, x: Array, dy: Array, winner: Array, to: Gradients) -> Launches:
        """Fill dw and db; dy and winner are the pool's."""
        cut, parts, o = self._cut(n), self._parts(n), self.written[0]
        lines = self._lines(cut)
        kernel = self.device.kernel(SPARSE, f"correlate_winners<{self.read[0]}, {self.k}>")
        product = kernel.bind(
            (parts, ceil_div(o, 32 * cut.warps)), 32 * cut.warps, x, dy, winner, self.parts, self.sums, n, *self.read[1:], *self.written,
            self.padding, cut.slab, cut.ranges, cut.windows, lines, shared=_shared(self.read, self.padding, lines, cut.warps),
        )  # fmt: skip
        return [product, finish(self.device, self.parts, parts, self.sums, parts, (o, self.read[0], self.k, 1), to)]


class FewImagesGradient:
    """As `WinnersGradient`, for a batch of an image or a few: complete sums in one launch, which may update their
    parameters as well.
    """

    def __init__(self, owner: OnDevice, read: Image, written: Image, k: int, padding: int) -> None:
        self.device, self.read, self.written, self.k, self.padding = owner.device, read, written, k, padding

    @staticmethod
    def takes(read: Image, k: int, stride: int, padding: int, capacity: int, limits: Limits) -> bool:
        """Whether the images are few enough, and an image has room."""
        room = 4 * read[0] * (read[1] + 2 * padding) * (read[2] + 2 * padding)
        return (
            stride == 1
            and read[0] * k * k <= MOST
            and capacity <= IMAGES_AT_MOST
            and room <= limits.shared_per_block // 2
        )

    def launches(self, n: int, x: Array, dy: Array, winner: Array, to: Gradients) -> Launches:
        """Fill dw and db; dy and winner are the pool's."""
        c, h, w = self.read
        room = 4 * c * (h + 2 * self.padding) * (w + 2 * self.padding)
        kernel = self.device.kernel(IMAGES, f"correlate_few_images<{c}, {self.k}>")
        return [
            kernel.bind(
                ceil_div(self.written[0], TOGETHER), WINDOWS, x, dy, winner, to.dw, to.db, n, h, w, *self.written, self.padding, *to.updated,
                shared=room,
            )
        ]  # fmt: skip


def _shared(read: Image, padding: int, lines: int, warps: int) -> int:
    """Bytes of shared memory of a block of `correlate_winners` that keeps so many lines of an image."""
    return 4 * read[0] * lines * (read[2] + 2 * padding) + warps * 32 * 33 * 5
