"""What a convolution's backward pass needs besides its input gradient: the gradient that comes in, and that of the
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...device import Array, Device, Launch
from ..cost.tiles import ALONG, CANDIDATES, Planned, Tile
from ..engine.kernels import Launches, OnDevice, ceil_div
from ..update.fused import NOTHING
from .products import Image, turns

WEIGHTS = Path(__file__).with_name("gemm_weights.cu")
GRADIENT = Path(__file__).with_name("gradient.cu")

THREADS = 256

#: Tiles for `correlate`, whose threads keep more than those of other products: in the others it would not have
#: registers enough. The last one is as wide as the nine taps of 16 channels, of which no other width is a divisor.
TILES = (
    *(tile for tile in CANDIDATES if tile.bn <= 2 * tile.threads and (tile.threads, tile.tm * tile.tn) != (256, 64)),
    Tile(32, 144, 8, 4, 12),
)


@dataclass(frozen=True)
class Gradients:
    """Where a convolution's gradients of its weights and biases go.

    updated : arguments of the update in the launch that finishes the gradients, as `fused.settings` gives them; NOTHING
    where parameters stay as they are.
    """

    dw: Array
    db: Array
    updated: tuple[object, ...] = NOTHING


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
        """The launches, the gradient that they leave, and how many rows of `sums` are to be added up. y: of a ReLU,
        None without one.
        """
        channels, high, wide = self.image
        slab = ceil_div(n, self.slabs)
        slabs = ceil_div(n, slab)
        if self.spread is not None:
            kernel = self.device.kernel(GRADIENT, "spread_gradient")
            launch = kernel.bind(
                (channels, slabs), THREADS, dy, winner, self.spread, self.sums, n, channels, high, wide, slab
            )
            return [launch], self.spread, slabs
        shape, grid = (n, channels, high * wide, slab), (channels, slabs)
        if y is None:
            return [self.device.kernel(GRADIENT, "sum_gradient").bind(grid, THREADS, dy, self.sums, *shape)], dy, slabs
        return (
            [self.device.kernel(GRADIENT, "rectify_gradient").bind(grid, THREADS, dy, y, self.sums, *shape)],
            dy,
            slabs,
        )


class WeightGradient:
    """dw and db of a convolution for up to `capacity` images.

    read : (c, h, w), the image whose pixels are read through the window.
    written : (o, oh, ow), what that convolution writes, whose gradient is known.
    k, stride, padding : of the window.
    fold : as `Geometry`; then read is the large image's gradient, and written the small image itself.
    """

    def __init__(
        self, owner: OnDevice, read: Image, written: Image, k: int, stride: int, padding: int, fold: int, capacity: int
    ) -> None:
        self.device, self.read, self.written = owner.device, read, written
        self.window, self.fold = (k, stride, padding), fold
        self.columns = across = columns(read[0], k)
        outputs, high, wide = written
        self.plan = Planned(
            lambda n: (outputs, across, n * high * wide), self.device.limits, capacity, False, TILES, (ALONG, ALONG)
        )
        self.parts = owner.scratch((self.plan.room,))

    def launches(self, n: int, read: Array, gradient: Array, sums: Array, slabs: int, to: Gradients) -> Launches:
        """dw from the two images, and db from the first `slabs` rows of sums."""
        plan, outputs = self.plan(n), self.written[0]
        tile = plan.tile
        tiles = ceil_div(outputs, tile.bm) * ceil_div(self.columns, tile.bn)
        product = self.device.kernel(WEIGHTS, f"correlate<{tile}, {'true' if self.read[0] < 4 else 'false'}>").bind(
            (tiles, plan.parts), tile.threads, read, gradient, self.parts, n, *self.read, *self.written, *self.window, plan.depth,
            shared=tile.shared,
        )  # fmt: skip
        shape = outputs, self.read[0], self.window[0], self.fold
        return self.plan.mark([product, finish(self.device, self.parts, plan.parts, sums, slabs, shape, to)])


def columns(channels: int, k: int) -> int:
    """Columns of a weight gradient's parts: taps, and channels rounded up to a multiple of 4."""
    return k * k * ceil_div(channels, 4) * 4


def finish(
    device: Device, part: Array, parts: int, sums: Array, slabs: int, shape: tuple[int, int, int, int], to: Gradients
) -> Launch:
    """dw from the sums of parts, and db from those of the first `slabs` rows of sums; shape: o, c, k and fold of
    finish_weights.
    """
    o, c, k, fold = shape
    groups = o * (k - fold + 1) ** 2 * ceil_div(c, 4) + to.db.size
    each = turns(groups, parts, 32, device.limits)
    kernel = device.kernel(WEIGHTS, f"finish_weights<{fold}>")
    return kernel.bind(
        ceil_div(groups, THREADS // each),
        (THREADS // each, each),
        part,
        to.dw,
        sums,
        to.db,
        parts,
        slabs,
        o,
        c,
        k,
        to.db.size,
        *to.updated,
    )
