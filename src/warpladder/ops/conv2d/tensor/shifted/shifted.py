"""Convolutions of few outputs behind an enlargement by 2, by warpgroup products (wgmma) of Hopper that come first, and
shifts that come afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .....device import Array, Device, Launch
from .....machine.peaks import HOPPER
from ....engine.kernels import Launches, OnDevice, ceil_div
from ...gradients import Gradients, finish
from ...products import Image
from ..warpgroups.warpgroups import CHANNELS, FORMATS, PACKING, PIECE, PackedImages, WarpgroupFormat

SOURCE = Path(__file__).with_name("shifted.cu")
GRADIENT = Path(__file__).with_name("shifted_gradient.cu")
PACK = Path(__file__).with_name("shifted_pack.cu")

#: As in shifted.cuh: threads of a block, outputs at most, columns of a product, pixels of an image at most and pieces
#: that they are.
THREADS, OUTPUTS, COLUMNS, PIXELS, PIECES = 512, 4, 64, 256, 4
#: Chunks of 64 channels whose sums of dw a block keeps; floats from a column to the next where products stand before
#: they are shifted.
SLICE, PITCH = 4, PIXELS + 8


@dataclass(frozen=True)
class GradientBelow:
    """dx in the form in which the convolution below takes it: its packed images, and `sums` (capacity, channels), over
    the pixels of each image, for its bias.
    """

    images: PackedImages
    sums: Array


class ShiftedConvolution:
    """All passes of Upsample2d(2) and a convolution with a window of 3 x 3 and a pixel of padding, for up to `capacity`
    images; x is read as it lies.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    small, written : Image
        What it reads and what it writes, twice as high and wide; (channels, rows, columns).
    capacity : int
    precision : str
    trains : bool
        Whether there is a backward pass.
    below : GradientBelow, optional
        Where dx goes instead of an array of its own.
    """

    def __init__(
        self,
        owner: OnDevice,
        small: Image,
        written: Image,
        capacity: int,
        precision: str,
        trains: bool,
        below: GradientBelow | None = None,
    ) -> None:
        self.device, self.kind, self.small, self.o, self.below = (
            owner.device,
            FORMATS[precision],
            small,
            written[0],
            below,
        )
        c = small[0]
        self.weights = _Weights(owner, c, OUTPUTS, self.kind)
        self.backward_weights: _Weights | None = None
        if not trains:
            return
        # Without scales, and in the order of memory, one copy of the weights serves both ways.
        apart = self.kind.scaled or below is not None
        self.backward_weights = _Weights(owner, c, c, self.kind) if apart else self.weights
        self.parts = owner.scratch((self._blocks(capacity), c, COLUMNS))
        self.sums = owner.scratch((self._blocks(capacity), self.o))

    @staticmethod
    def takes(
        device: Device, small: Image, written: Image, window: tuple[int, int, int], capacity: int, precision: str
    ) -> bool:
        """Whether a convolution is computed so: on Hopper, with few outputs and small images, of which there are enough
        for half of the multiprocessors.

        small, written : what it reads, before an enlargement by 2, and what it writes; (channels, rows, columns).
        window : kernel size, stride and padding.
        capacity : images of a whole batch.
        """
        if device.capability not in (None, HOPPER) or precision not in FORMATS or window != (3, 1, 1):
            return False
        (c, h, w), o = small, written[0]
        return c % CHANNELS == 0 and o <= OUTPUTS and h * w <= PIXELS and 2 * capacity >= device.limits.multiprocessors

    def _blocks(self, n: int) -> int:
        return min(n, self.device.limits.multiprocessors)

    def pack(self, w: Array) -> Launch:
        """Packs the weights (o, c, 3, 3), once a step."""
        c, back = self.small[0], self.backward_weights
        others = (None, None) if back is None or back is self.weights else (back.pieces, back.undo)
        kernel = self.device.kernel(PACK, f"pack_shifted<{self.kind.name}>")
        return kernel.bind(
            c // CHANNELS,
            PACKING,
            w,
            self.weights.pieces,
            self.weights.undo,
            *others,
            self.o,
            c,
            int(self.below is not None),
        )

    def forward(self, n: int, x: Array, bias: Array, y: Array) -> Launches:
        """y[:n] (n, o, 2 h, 2 w) from x[:n] (n, c, h, w) and the packed weights, + bias."""
        kernel = self.device.kernel(SOURCE, f"convolve_shifted<{self.kind.name}>")
        shared = (PIECES + 2) * self.kind.copies * PIECE + 4 * COLUMNS * PITCH + 1024
        return [
            kernel.bind(
                self._blocks(n),
                THREADS,
                x,
                self.weights.pieces,
                self.weights.undo,
                bias,
                y,
                n,
                *self.small,
                self.o,
                shared=shared,
            )
        ]

    def backward(self, n: int, x: Array, dy: Array, to: Gradients, dx: Array | None, rectified: bool) -> Launches:
        """dw, db and dx[:n] from x[:n] and dy[:n]; dx is 0 where x is not above 0 if x is `rectified`, a ReLU's output.

        dx : as x; None where nobody wants it. Where there is a `below`, that is filled and dx is not.
        """
        weights, below, (c, _, columns) = self.backward_weights, self.below, self.small
        assert weights is not None
        blocks, kind, packs = self._blocks(n), self.kind, "false" if below is None else "true"
        packed = (None, None, None, None) if below is None else (*below.images.halves.packing, below.sums)
        apart = columns if below is not None and below.images.classes > 1 else 0
        shared = (2 * PIECES + SLICE) * kind.copies * PIECE + 4 * OUTPUTS * 4 * PIXELS + CHANNELS * PIXELS // 4 + 1024
        kernel = self.device.kernel(GRADIENT, f"differentiate_shifted<{kind.name}, {packs}>")
        product = kernel.bind(
            (blocks, ceil_div(c // CHANNELS, SLICE)), THREADS, x, dy, weights.pieces, weights.undo, None if below is not None else dx, *packed,
            self.parts, self.sums, n, *self.small, self.o, int(rectified), apart, shared=shared,
        )  # fmt: skip
        product.products = 1 if dx is None else 2
        return [product, finish(self.device, self.parts, blocks, self.sums, blocks, (c, self.o, 4, 2), to)]


class _Weights:
    """Packed weights of one way.

    pieces : uint32, each 64 channels' piece of 64 columns; high halves and, where numbers are split, low ones after
    them.
    undo : float32, what undoes scales, `scales` numbers; None where there are none.
    """

    def __init__(self, owner: OnDevice, c: int, scales: int, kind: WarpgroupFormat) -> None:
        self.pieces = owner.scratch((c // CHANNELS * kind.copies * PIECE // 4,), np.uint32)
        self.undo = owner.scratch((scales,)) if kind.scaled else None
