"""CUDA launcher of batch normalisation with the layers after it, in one launch where a block takes a channel."""

import math
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...device import Array, Device, Launch, Limits
from ...nets import NORMALISATIONS, BatchNorm1d, BatchNorm2d, Branch, Layer, Sum
from ..activation.fused import ENDS, IDENTITY, function
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands
from ..update.fused import UpdatesInPlace, settings

FUSED = Path(__file__).with_name("fused.cu")

#: Sources of a channel's sums, as in channel_sums.cuh.
ALONE, PARTS, RUNNING = range(3)
#: Channels of a block where each has one number in a sample, and threads of a block that shares a channel with others.
FEATURES, THREADS = 32, 256
#: Most numbers of a channel that a block takes alone: if there is a channel for each multiprocessor, and if not.
MOST, LEAST = 16384, 4096
#: Most numbers of a channel that a block of 32 channels takes alone: with a block for each multiprocessor, and without.
MOST_ROWS, LEAST_ROWS = 4096, 1024
#: Numbers of a thread, and of a block where another launch adds up; the same, where a block has 32 channels.
EACH, PART = 16, 4096
EACH_ROWS, PART_ROWS = 4, 128
#: Blocks of THREADS threads on a multiprocessor.
RESIDENT = 8


class Division(NamedTuple):
    """Division of the channels' numbers among blocks: `chunks` blocks share `across` channels."""

    source: int
    across: int
    wide: int
    groups: int
    chunks: int
    threads: int
    units: int
    width: int

    @property
    def blocks(self) -> int:
        return self.groups * self.chunks

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Kernel arguments units, per, chunks and width."""
        return self.units, ceil_div(self.units, self.chunks), self.chunks, self.width


def divided(limits: Limits, n: int, channels: int, size: int) -> Division:
    """Division of n samples of (channels, size) numbers: a block for each channel, or parts for a second launch."""
    across, wide = FEATURES if size == 1 else 1, 4 if size % 4 == 0 else 1
    groups, count, units, width = ceil_div(channels, across), n * size, n * size // wide, size // wide
    fills = groups >= limits.multiprocessors
    most, each, part = (
        (MOST_ROWS if fills else LEAST_ROWS, EACH_ROWS, PART_ROWS)
        if size == 1
        else (MOST if fills else LEAST, EACH, PART)
    )
    if count <= most:
        widest = 512 if fills or size > 1 else 1024
        threads = min(widest, max(64, across * _power(ceil_div(count, each))))
        return Division(ALONE, across, wide, groups, 1, threads, units, width)
    chunks = min(ceil_div(count, part), ceil_div(RESIDENT * limits.multiprocessors, groups))
    return Division(PARTS, across, wide, groups, chunks, THREADS, units, width)


def _power(number: int) -> int:
    """Smallest power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


class FusedBatchNorm(UpdatesInPlace):
    """BatchNorm [Sum] [activation] [Branch]: y = f(z w + b + skip), in one launch each way or, with sums in parts, two.

    A batch is one slice. With a Sum or a Branch `backward` overwrites dy with the gradient of f's input.
    """

    cost = 3
    masks_dy = True
    has_few_parameters = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        layer, *rest = subgraph.layers
        assert isinstance(layer, BatchNorm1d | BatchNorm2d)
        self.layer, (capacity, self.channels, *pixels) = layer, self.buffers.x.shape
        self.size = math.prod(pixels)
        self.trains = subgraph.config is not None
        self.adds, self.branches = (any(isinstance(each, kind) for each in rest) for kind in (Sum, Branch))
        self.function, self.slope = function(subgraph.layers)
        self.saved = self.scratch((5, self.channels)) if self.trains else None
        division = self.divided(capacity)
        parts = (division.blocks, 2, division.across)
        self.parts = self.scratch(parts, np.float64) if self.trains and division.source == PARTS else None

    def divided(self, n: int) -> Division:
        """Division of n samples; an activation other than ReLU needs more registers than 1,024 threads leave."""
        found = divided(self.device.limits, n, self.channels, self.size)
        return found if self.function >= IDENTITY else found._replace(threads=min(512, found.threads))

    def _kernel(self, name: str, division: Division, *values: int, arguments: tuple[object, ...]) -> Launch:
        found = ", ".join(map(str, (division.across, division.wide, *values)))
        kernel = self.device.kernel(FUSED, f"{name}<{found}>")
        return kernel.bind(division.blocks, division.threads, *arguments)

    def forward(self, part: Slice) -> Launches:
        t, layer, channels = self.buffers, self.layer, self.channels
        division = self.divided(part.n)
        source = division.source if self.trains else RUNNING
        if not self.trains:
            division = division._replace(source=RUNNING)
        skip = t.skip if self.adds else None
        found = []
        if source == PARTS:
            arguments: tuple[object, ...] = t.x, self.parts, *division.numbers, channels
            found.append(self._kernel("norm_moments", division, arguments=arguments))
        arguments = t.x, skip, t.y, t.w, t.b, t.mean, t.var, self.saved, self.parts, *division.numbers, channels
        arguments = *arguments, layer.eps, layer.momentum, self.slope
        return [*found, self._kernel("norm_forward", division, self.function, source, arguments=arguments)]

    def backward(self, part: Slice) -> Launches:
        t, channels = self.buffers, self.channels
        division = self.divided(part.n)
        dskip = t.dskip if self.branches else None
        skip = t.skip if self.adds and self.function != IDENTITY else None
        keeps = dskip is not None or (self.adds and self.function != IDENTITY)
        common = t.x, skip, t.dy, dskip, self.saved, self.parts
        numbers = *division.numbers, channels, self.slope, int(keeps)
        found = []
        if division.source == PARTS:
            found.append(self._kernel("norm_sums", division, self.function, arguments=(*common, *numbers)))
        if t.dx is None and t.dw is None and not keeps:
            return []
        gradients: tuple[Array | None, ...] = t.dx, t.dw, t.db
        arguments = *common, *gradients, *numbers, *settings(self.update, part)
        return [*found, self._kernel("norm_backward", division, self.function, division.source, arguments=arguments)]


#: Runs of layers that the segment computes.
NORMS: tuple[type[Layer], ...] = NORMALISATIONS
CHAINS: list[tuple[type[Layer], ...]] = [
    (norm, *(Sum,) * adds, *after, *(Branch,) * branches)
    for norm, adds, after, branches in product(NORMS, (False, True), ENDS, (False, True))
]
