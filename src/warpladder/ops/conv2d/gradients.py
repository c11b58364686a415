"""Gradients of a convolution: of its output, through the layers fused after it, and of its weights and biases."""

from dataclasses import dataclass
from pathlib import Path

from ...device import Array, Device, Launch
from ..cost.plans import Planner
from ..cost.tiles import ALONG, CANDIDATES, Tile, TilePlan, gemm
from ..engine.kernels import Launches, OnDevice, ceil_div
from ..update.fused import NOTHING
from .problem import FusedConv, Image
from .products import turns

WEIGHTS = Path(__file__).with_name("gemm_weights.cu")
GRADIENT = Path(__file__).with_name("gradient.cu")
#: Threads of a block.
THREADS = 256
#: Tiles of `correlate`, whose threads need more registers than other products' threads: the other tiles leave too few.
#: The last tile is as wide as the nine taps of 16 channels, which no other width divides.
TILES = (
    *(tile for tile in CANDIDATES if tile.bn <= 2 * tile.threads and (tile.threads, tile.tm * tile.tn) != (256, 64)),
    Tile(32, 144, 8, 4, 12),
)


@dataclass(frozen=True)
class Gradients:
    """Destination arrays dw and db of a convolution, and the optimizer's step fused with them.

    updated : arguments of the optimizer's step in the same launch (`fused.settings`), or NOTHING.
    """

    dw: Array
    db: Array
    updated: tuple[object, ...] = NOTHING


class IncomingGradient:
    """Gradient of a convolution's output, computed through the ReLU and pool after it, with partial sums for the bias.

    image : (channels, rows, columns) of the convolution's output.
    pool : True if a 2 x 2 pool follows: the incoming gradient has the pool's shape, and is written to `spread` at the
    argmax pixels.
    has_bias : False if there is no bias, so that no launch is made for it alone.
    """

    def __init__(self, owner: OnDevice, image: Image, capacity: int, pool: bool, has_bias: bool = True) -> None:
        self.device, self.image, self.pool, self.has_bias = owner.device, image, pool, has_bias
        self.most = min(capacity, ceil_div(8 * self.device.limits.multiprocessors, image[0]))
        self.sums = owner.scratch((self.most, image[0]))
        self.spread = owner.scratch((capacity, *image)) if pool else None

    def launches(self, n: int, dy: Array, y: Array | None, argmax: Array | None) -> tuple[Launches, Array, int]:
        """Launches, the gradient that they compute, and the number of rows of `sums` that add up to db.

        y : output of a ReLU whose mask has not been applied to dy, else None.
        """
        if not self.has_bias and y is None and self.spread is None:
            return [], dy, 0
        channels, high, wide = self.image
        each = ceil_div(n, self.most)
        parts = ceil_div(n, each)
        grid = channels, parts
        if self.spread is not None:
            arguments = dy, argmax, self.spread, self.sums, n, channels, high, wide, each
            kernel = self.device.kernel(GRADIENT, "spread_gradient")
            return [kernel.bind(grid, THREADS, *arguments)], self.spread, parts
        kernel = self.device.kernel(GRADIENT, "sum_gradient" if y is None else "apply_relu_mask")
        arrays = (dy, self.sums) if y is None else (dy, y, self.sums)
        return [kernel.bind(grid, THREADS, *arrays, n, channels, high * wide, each)], dy, parts


class WeightGradient:
    """Kernel for dw and db of a convolution as an fp32 matrix product, for up to `capacity` images."""

    def __init__(self, owner: OnDevice, conv: FusedConv, capacity: int) -> None:
        self.device, self.upsample, (self.read, self.written) = owner.device, conv.upsample, conv.correlated
        self.window, limits = conv.small_window, owner.device.limits
        self.columns = across = columns(self.read[0], self.window.k)
        outputs, high, wide = self.written
        self.plan: Planner[TilePlan] = Planner(
            lambda n: gemm((outputs, across, n * high * wide), limits, False, TILES, (ALONG, ALONG)), capacity
        )
        self.partials = owner.scratch((self.plan.partials,))

    def launches(self, n: int, read: Array, gradient: Array, sums: Array, rows: int, to: Gradients) -> Launches:
        """Launches that fill dw from images `read` and `gradient`, and db from the first `rows` rows of sums."""
        plan, outputs = self.plan(n), self.written[0]
        tile, by_terms = plan.tile, "true" if self.read[0] < 4 else "false"
        tiles = ceil_div(outputs, tile.bm) * ceil_div(self.columns, tile.bn)
        arguments = read, gradient, self.partials, n, *self.read, *self.written, *self.window, plan.depth
        kernel = self.device.kernel(WEIGHTS, f"correlate<{tile}, {by_terms}>")
        product = kernel.bind((tiles, plan.parts), tile.threads, *arguments, shared=tile.shared)
        shape = outputs, self.read[0], self.window.k, self.upsample
        return self.plan.mark([product, finish(self.device, (self.partials, plan.parts), (sums, rows), shape, to)])


def columns(channels: int, k: int) -> int:
    """Number of columns of a weight gradient's partials: k * k taps times channels, rounded up to a multiple of 4."""
    return k * k * ceil_div(channels, 4) * 4


def finish(
    device: Device, partials: tuple[Array, int], sums: tuple[Array, int], shape: tuple[int, int, int, int],
    to: Gradients
) -> Launch:  # fmt: skip
    """Launch that adds the split-K partials of dw, and the rows of sums to db.

    partials, sums : array, and the number of its parts or rows.
    shape : outputs, channels, side of the window and factor of the upsampling, as `finish_weights` takes them.
    """
    (part, parts), (rows_of, rows), (o, c, k, fold) = partials, sums, shape
    groups = o * (k - fold + 1) ** 2 * ceil_div(c, 4) + to.db.size
    each = turns(groups, parts, 32, device.limits)
    kernel, block = device.kernel(WEIGHTS, f"finish_weights<{fold}>"), (THREADS // each, each)
    arguments = part, to.dw, rows_of, to.db, parts, rows, o, c, k, to.db.size, *to.updated
    return kernel.bind(ceil_div(groups, block[0]), block, *arguments)
