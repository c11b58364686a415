"""A net's first convolution on tensor cores: few inputs, a picture's colours, many outputs, and a ReLU and a 2 x 2 pool
after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .....device import Array, Limits
from ....engine.kernels import Launches, OnDevice, ceil_div
from ...gradients import Gradients, columns, finish
from ...products import Image

FORWARD = Path(__file__).with_name("first.cu")
WEIGHTS = Path(__file__).with_name("first_weights.cu")

#: Terms of a sum at most, two steps of the tensor cores; outputs come in sixteens, and below LEAST of them the
#: multiply-adds of few.py are as fast.
MOST, SIXTEEN, LEAST = 32, 16, 32
#: Threads of a block, its warps, and the bytes of a stage of gradients and winners in `correlate_first`.
THREADS, WARPS, STAGE = 256, 8, 40960
#: Outputs of a warp of `correlate_first`, and windows that it multiplies at a time; outputs of a block of
#: `convolve_first` at most.
OF_WARP, WINDOWS, CHUNK = 64, 16, 256


@dataclass(frozen=True)
class FirstFormat:
    """What the kernels make of factors.

    name : as tensor_panels.cuh calls it.
    copies : numbers of 16 bits that a factor's number becomes.
    windows : windows of 2 x 2 pixels of a block of `convolve_first`.
    """

    name: str
    copies: int
    windows: int


#: By the precision that products are asked for in. A half with a scale keeps tf32's 11 bits, at twice the speed.
FORMATS = {
    "fp32": FirstFormat("SPLIT", 2, 128),
    "tf32": FirstFormat("HALF", 1, 256),
    "bf16": FirstFormat("BF16", 1, 256),
    "fp16": FirstFormat("HALF", 1, 256),
}


def fits(read: Image, written: Image, window: tuple[int, int, int], precision: str, limits: Limits) -> bool:
    """Whether a first layer with a ReLU and a pool is computed here: short sums, stride 1, outputs in whole sixteens,
    and blocks that have room for a picture.

    read, written : what it reads and what it writes, before the pool; (channels, rows, columns).
    window : kernel size, stride and padding.
    """
    k, stride, padding = window
    if stride != 1 or read[0] * k * k > MOST or written[0] % SIXTEEN or written[0] < LEAST:
        return False
    if (written[1] // 2) * (
        written[2] // 2
    ) < 4:  # a lane of convolve_first has up to four windows, of two pictures at most
        return False
    kind, lines = FORMATS[precision], written[1] // 2 * 2 + k - 1
    shared = max(
        _shared_forward(read, padding, lines, 1, SIXTEEN, kind),
        _shared_weights(read, padding, k, lines, written, kind, 2),
    )
    return shared <= limits.shared_opt_in


def _shared_forward(read: Image, padding: int, lines: int, images: int, chunk: int, kind: FirstFormat) -> int:
    """Bytes of shared memory of a block of `convolve_first`: weights, biases and scales of its outputs, and so many
    lines of images.
    """
    return (64 * kind.copies + 8) * chunk + 4 * images * read[0] * lines * (read[2] + 2 * padding)


def _pitches(read: Image, padding: int, k: int, lines: int) -> tuple[int, int]:
    """Words of a line and of a channel of pairs, so that terms of neighbouring numbers are in neighbouring banks: k and
    k k more than a multiple of 8.
    """
    wide = read[2] + 2 * padding
    pitch = wide + (k - wide) % 8
    plane = lines * pitch
    return pitch, plane + (k * k - plane) % 8


def _shared_weights(
    read: Image, padding: int, k: int, lines: int, written: Image, kind: FirstFormat, stages: int
) -> int:
    """Bytes of shared memory of a block of `correlate_first`: its ring, pairs, a picture, and where windows begin."""
    _, plane = _pitches(read, padding, k, lines)
    corners = ceil_div((written[1] // 2) * (written[2] // 2), WINDOWS) * WINDOWS
    return stages * STAGE + 4 * (kind.copies * read[0] * plane + read[0] * lines * (read[2] + 2 * padding) + corners)


def _lines(written: Image, k: int, windows: int) -> int:
    """Lines of a picture with its padding that so many windows of 2 x 2 pixels, one after another, see at most."""
    down, across = written[1] // 2, written[2] // 2
    rows = windows // across if windows % across == 0 else 1 if across % windows == 0 else (windows - 2) // across + 2
    return 2 * min(rows, down) + k - 1


class FirstConvolution:
    """The forward pass: y after ReLU and pool, and who won.

    read, written : what it reads and what it writes, before the pool; (channels, rows, columns).
    """

    def __init__(self, owner: OnDevice, read: Image, written: Image, k: int, padding: int, precision: str) -> None:
        self.device, self.read, self.written, self.k, self.padding = owner.device, read, written, k, padding
        self.kind = FORMATS[precision]

    def launches(
        self, n: int, x: Array, w: Array, bias: Array, y: Array, winner: Array | None, packed: Array | None = None
    ) -> Launches:  # fmt: skip
        """y[:n] and winner[:n], the pool's, from x[:n]. packed : uint16, of the shape of y with the channels last,
        where y goes in bf16 as well.
        """
        (c, h, width), (o, high, wide) = self.read, self.written
        windows, most, limits = (high // 2) * (wide // 2), self.kind.windows, self.device.limits
        images, ranges = max(1, min(n, most // windows)), ceil_div(windows, most)
        lines = _lines(self.written, self.k, min(windows, most))
        chunk = min(o, CHUNK)
        while images > 1 and self._shared(lines, images, chunk) > limits.shared_opt_in // 2:
            images //= 2
        blocks, slots = ceil_div(n, images) * ranges, 2 * limits.multiprocessors  # two blocks to a multiprocessor
        # Halves of the outputs have the same fragments to build: only where half of the slots would be empty.
        while chunk > SIXTEEN and (
            2 * blocks * ceil_div(o, chunk) <= slots or self._shared(lines, images, chunk) > limits.shared_opt_in
        ):
            chunk = ceil_div(chunk // 2, SIXTEEN) * SIXTEEN
        kernel = self.device.kernel(FORWARD, f"convolve_first<{self.kind.name}>")
        return [
            kernel.bind(
                (blocks, ceil_div(o, chunk)), THREADS, x, w, bias, y, winner, packed, n, c, h, width, o, high, wide, self.k, self.padding,
                images, ranges, lines, chunk, shared=self._shared(lines, images, chunk),
            )
        ]  # fmt: skip

    def _shared(self, lines: int, images: int, chunk: int) -> int:
        return _shared_forward(self.read, self.padding, lines, images, chunk, self.kind)


class FirstGradient:
    """dw and db, straight from the pool's gradient, for up to `capacity` images."""

    @dataclass(frozen=True)
    class Cut:
        """Sixty-fours of outputs in a block, images in a part, ranges that their windows are cut into, windows of a
        range, and parts.
        """

        groups: int
        slab: int
        ranges: int
        windows: int
        parts: int

    def __init__(
        self, owner: OnDevice, read: Image, written: Image, k: int, padding: int, capacity: int, precision: str
    ) -> None:
        self.device, self.read, self.written, self.k, self.padding = owner.device, read, written, k, padding
        self.kind = FORMATS[precision]
        most = max(
            self._cut(n).parts for n in {*range(1, min(capacity, 2 * self.device.limits.multiprocessors) + 1), capacity}
        )
        self.parts = owner.scratch((most * written[0] * columns(read[0], k),))
        self.sums = owner.scratch((most, written[0]))

    def _cut(self, n: int) -> Cut:
        """A block for each multiprocessor, where there are pictures or windows enough."""
        o, high, wide = self.written
        groups = min(4, 1 << (ceil_div(o, OF_WARP) - 1).bit_length())
        blocks = ceil_div(o, OF_WARP * groups)  # of a part
        processors = max(1, self.device.limits.multiprocessors // blocks)
        slab, windows = ceil_div(n, processors), (high // 2) * (wide // 2)
        slabs, each = ceil_div(n, slab), WINDOWS * WARPS // groups  # windows that the block's warps multiply at a time
        turns = ceil_div(ceil_div(windows, each), max(1, processors // slabs))
        ranges = ceil_div(windows, turns * each)
        return self.Cut(groups, slab, ranges, turns * each, slabs * ranges)

    def launches(self, n: int, x: Array, dy: Array, winner: Array, to: Gradients) -> Launches:
        """Fill dw and db; dy and winner are the pool's."""
        cut, (c, h, w), o = self._cut(n), self.read, self.written[0]
        lines = _lines(self.written, self.k, min(cut.windows, (self.written[1] // 2) * (self.written[2] // 2)))
        pitch, plane = _pitches(self.read, self.padding, self.k, lines)
        shared = {
            stages: _shared_weights(self.read, self.padding, self.k, lines, self.written, self.kind, stages)
            for stages in (2, 3)
        }
        stages = 3 if shared[3] <= self.device.limits.shared_opt_in else 2
        kernel = self.device.kernel(WEIGHTS, f"correlate_first<{self.kind.name}, {stages}>")
        product = kernel.bind(
            (cut.parts, ceil_div(o, OF_WARP * cut.groups)), THREADS, x, dy, winner, self.parts, self.sums, n, c, h, w, *self.written, self.k,
            self.padding, cut.slab, cut.ranges, cut.windows, lines, pitch, plane, cut.groups, shared=shared[stages],
        )  # fmt: skip
        return [product, finish(self.device, self.parts, cut.parts, self.sums, cut.parts, (o, c, self.k, 1), to)]
