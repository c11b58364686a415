"""What a convolution's backward pass needs besides its input gradient: the gradient that comes in, and that of the weights."""

from __future__ import annotations

from pathlib import Path

from ...device import Array
from ..kernels import Launches, OnDevice, ceil_div
from ..tiles import Planned
from .products import Image

WEIGHTS = Path(__file__).with_name("gemm_weights.cu")
GRADIENT = Path(__file__).with_name("gradient.cu")

THREADS = 256


class IncomingGradient:
    """The gradient of a convolution's own output from that of what follows it, and sums of it for the bias.

    image : (channels, height, width) of the convolution's output.
    pool : whether a 2 x 2 pool follows; then the gradient is as large as the pool's output, and is spread to `spread`.
    """

    def __init__(self, owner: OnDevice, image: Image, capacity: int, pool: bool) -> None:
        self.device, self.image, self.pool = owner.device, image, pool
        self.slabs = min(capacity, ceil_div(8 * self.device.limits.multiprocessors, image[0]))
        self.sums = owner.scratch((self.slabs, image[0]))
        self.spread = owner.scratch((capacity, *image)) if pool else None

    def launches(self, n: int, dy: Array, y: Array | None, winner: Array | None) -> tuple[Launches, Array, int]:
        """The launches, the gradient that they leave, and how many rows of `sums` are to be added up. y: of a ReLU, None without one."""
        channels, high, wide = self.image
        slab = ceil_div(n, self.slabs)
        slabs = ceil_div(n, slab)
        if self.pool:
            assert self.spread is not None
            kernel = self.device.kernel(GRADIENT, "spread_gradient")
            launch = kernel.bind((channels, slabs), THREADS, dy, winner, self.spread, self.sums, n, channels, high, wide, slab)
            return [launch], self.spread, slabs
        kernel = self.device.kernel(GRADIENT, "rectify_gradient")
        return [kernel.bind((channels, slabs), THREADS, dy, y, self.sums, n, channels, high * wide, slab)], dy, slabs


class WeightGradient:
    """dw and db of a convolution for up to `capacity` images.

    read : (c, h, w), the image whose pixels are read through the window.
    written : (o, oh, ow), what that convolution writes, whose gradient is known.
    fold : as `Geometry`; then read is the large image's gradient, and written the small image itself.
    """

    def __init__(self, owner: OnDevice, read: Image, written: Image, k: int, stride: int, padding: int, fold: int, capacity: int) -> None:
        self.device, self.read, self.written = owner.device, read, written
        self.window, self.fold = (k, stride, padding), fold
        self.columns = k * k * ceil_div(read[0], 4) * 4
        outputs, high, wide = written
        self.plan = Planned(lambda n: (outputs, self.columns, n * high * wide), self.device.limits, capacity, whole=False)
        self.parts = owner.scratch((self.plan.room,))

    def launches(self, n: int, read: Array, gradient: Array, dw: Array, sums: Array, slabs: int, db: Array) -> Launches:
        """Fill dw from the two images, and db from the first `slabs` rows of sums."""
        plan, outputs = self.plan(n), self.written[0]
        tile = plan.tile
        tiles = ceil_div(outputs, tile.bm) * ceil_div(self.columns, tile.bn)
        product = self.device.kernel(WEIGHTS, f"correlate<{tile}>").bind(
            (tiles, plan.parts), tile.threads, read, gradient, self.parts, n, *self.read, *self.written, *self.window, plan.depth,
            shared=tile.shared,
        )  # fmt: skip
        turns = min(8, 1 << (plan.parts.bit_length() - 1))
        numbers = dw.size + db.size
        finish = self.device.kernel(WEIGHTS, "finish_weights").bind(
            ceil_div(numbers, THREADS // turns), (THREADS // turns, turns), self.parts, dw, sums, db, plan.parts, slabs, outputs, self.read[0],
            self.window[0], self.fold, db.size,
        )  # fmt: skip
        return [product, finish]
