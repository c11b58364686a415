"""Convolutions of few pixels on tensor cores, as launches: one each for y, dx and dw, by clusters of blocks that add
each other's sums up and finish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from .....device import Array, Launch, Limits
from ....engine.kernels import OnDevice, ceil_div
from ...gradients import Gradients
from ...products import Image
from ..general.general import Format
from ..narrow.narrow import FORMATS, inverse, row_bytes

SOURCE = Path(__file__).with_name("few_pixels.cu")
WEIGHTS = Path(__file__).with_name("few_pixels_weights.cu")

#: As in the kernels: channels and pixels of a stage, threads that share one, and groups of these in a block at most; of
#: a column's sums, from one to the next.
CHANNELS, PIXELS, GROUP, GROUPS, PITCH = 16, 64, 128, 2, 68

#: As in few_pixels_weights.cu: channels that a block has of the image that stands still, and of the one that is seen
#: through the window.
STILL, SEEN = 32, CHANNELS

#: Rows and columns of a tile at most: with more its halo would be much larger than the tile.
ALONG = 16

#: Blocks of a cluster at most: with more a kernel would have to ask for what not every GPU has.
CLUSTER = 8

#: Tiles of a batch at most, each of up to PIXELS pixels of one image: with a thousand pixels there is work enough for
#: kernels that pack.
MOST = 16

#: Fragments of eight columns that a group's warps may have, the most first, by which taps are read (taps.cuh).
TILES = {"WINDOW": (4, 2, 1), "ENLARGED": (4,), "GATHERED": (2, 1)}


def fits(
    small: Image, written: Image, window: tuple[int, int, int], capacity: int, precision: str, fold: int, limits: Limits
) -> bool:
    """Whether a convolution has few pixels: a window of 3 x 3 with its padding, alone or behind an enlargement by 2,
    where there are clusters of blocks.

    small, written : what it reads and what it writes, before a pool; (channels, rows, columns).
    window : kernel size, stride and padding.
    capacity : images of a whole batch.
    fold : by how much its image is enlarged before the window; 1 where it is not.
    """
    whole = window == (3, 1, 1) and fold <= 2 and small[0] % CHANNELS == 0
    return whole and precision in FORMATS and limits.cluster >= CLUSTER and capacity * Pass(small, small).tiles <= MOST


@dataclass(frozen=True)
class Pass:
    """One direction of a convolution: which image it reads and which it writes, before a pool.

    read, written : (channels, rows, columns).
    backwards : whether it is dx.
    pool : whether a 2 x 2 pool follows.
    """

    read: Image
    written: Image
    backwards: bool = False
    pool: bool = False

    @property
    def way(self) -> str:
        """Which taps it reads: a name of taps.cuh."""
        rows, other = self.written[1], self.read[1]
        return "WINDOW" if rows == other else "ENLARGED" if rows > other else "GATHERED"

    @property
    def classes(self) -> int:
        return 4 if self.way == "ENLARGED" else 1

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of a class of pixels that are computed; with a pool those that make whole windows."""
        _, high, across = self.written
        if self.way == "ENLARGED":
            return high // 2, across // 2
        return (high // 2 * 2, across // 2 * 2) if self.pool else (high, across)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a tile of PIXELS pixels at most; with a pool of whole windows."""
        high, across = self.image
        step = 2 if self.pool else 1
        columns = step * ceil_div(across // step, ceil_div(across, ALONG))
        return min(high, ALONG, PIXELS // columns // step * step), columns

    @property
    def tiles(self) -> int:
        """Tiles of an image."""
        (high, across), (rows, columns) = self.image, self.tile
        return ceil_div(high, rows) * ceil_div(across, columns)

    @property
    def halo(self) -> tuple[int, int]:
        """Rows and columns that a tile reads."""
        step = 2 if self.way == "GATHERED" else 1
        rows, columns = self.tile
        return step * rows + 2, step * columns + 2


@dataclass(frozen=True)
class Cut:
    """How a pass is cut into blocks.

    tiles : fragments of eight columns of a warp.
    cluster : blocks that share the channels of a tile.
    groups : groups of warps of a block, which share its channels.
    """

    tiles: int
    cluster: int
    groups: int


def cut(of: Pass, n: int, limits: Limits) -> Cut:
    """The widest blocks of which there are enough for three quarters of the multiprocessors, where some are; the
    narrowest elsewhere.
    """
    stages = ceil_div(of.read[0], CHANNELS)
    cluster = min(CLUSTER, stages)
    groups = min(GROUPS, ceil_div(stages, cluster))
    useful = [tiles for tiles in TILES[of.way] if tiles == TILES[of.way][-1] or 8 * tiles < 2 * of.written[0]]
    blocks = {tiles: n * of.tiles * ceil_div(of.written[0] * of.classes, 8 * tiles) * cluster for tiles in useful}
    enough = [tiles for tiles in useful if 4 * blocks[tiles] >= 3 * limits.multiprocessors]
    return Cut(enough[0] if enough else useful[-1], cluster, groups)


def shared_bytes(of: Pass, form: Cut, kind: Format) -> int:
    """Bytes of shared memory of a block."""
    columns, numbers = 8 * form.tiles, 9 if of.way == "WINDOW" else 16
    rows = prod(of.halo) + numbers * columns // of.classes
    return form.groups * (4 * columns * PITCH + rows * row_bytes(CHANNELS, kind))


@dataclass(frozen=True)
class Turn:
    """Where a step turns round: dy = (y - target) rate.

    target, dy : of y's shape.
    rate : 2 over the numbers of a batch, for their mean squared error.
    """

    target: Array
    dy: Array
    rate: float


class FewPixelsConvolution:
    """One direction of a convolution of few pixels, straight from its weights as they are.

    Parameters
    ----------
    owner : OnDevice
    of : Pass
    precision : str
    """

    def __init__(self, owner: OnDevice, of: Pass, precision: str) -> None:
        self.device, self.of, self.kind = owner.device, of, FORMATS[precision]

    def launch(
        self, n: int, x: Array, w: Array, y: Array, bias: Array | None = None, rectify: bool = False, winner: Array | None = None,
        below: Array | None = None, won: Array | None = None, turn: Turn | None = None,
    ) -> Launch:  # fmt: skip
        """y[:n] from x[:n], + bias, then the ReLU and the pool where they are wanted; 0 where below is not above 0.

        winner : uint8, of y's shape, for a pool's gradient.
        won : where x is what a 2 x 2 pool sends back, whom it goes to; of x's shape.
        turn : where the mean squared error follows: the gradient of y is filled too.
        """
        of, form = self.of, cut(self.of, n, self.device.limits)
        pooled = "true" if won is not None else "false"
        target, dy, rate = (turn.target, turn.dy, turn.rate) if turn is not None else (None, None, 0.0)
        kernel = self.device.kernel(SOURCE, f"convolve_few_pixels<{self.kind.name}, {of.way}, {form.tiles}, {pooled}>")
        grid = form.cluster, ceil_div(of.written[0] * of.classes, 8 * form.tiles), n * of.tiles
        (rows, columns), across = of.tile, ceil_div(of.image[1], of.tile[1])
        inverses = map(inverse, (of.tiles, across, columns // 2 if of.pool else columns, of.halo[1]))
        return kernel.bind(
            grid, GROUP * form.groups, x, won, w, bias, below, target, y, dy, winner, rate, *of.read, *of.written, rows, columns, of.tiles, across,
            int(of.backwards), int(rectify), int(of.pool), *inverses, shared=shared_bytes(of, form, self.kind), cluster=form.cluster,
        )  # fmt: skip


class FewPixelsGradient:
    """dw and db of a convolution of few pixels.

    Parameters
    ----------
    owner : OnDevice
    small, written : (channels, rows, columns)
        What the convolution reads, before an enlargement, and what it writes, before a pool.
    pool : bool
        Whether a 2 x 2 pool follows.
    precision : str
    """

    def __init__(self, owner: OnDevice, small: Image, written: Image, pool: bool, precision: str) -> None:
        self.device, self.pool, self.kind = owner.device, pool, FORMATS[precision]
        self.folded = small[1:] != written[1:]
        #: The image that stands still comes second: it is what a pass through the window would write.
        self.of = Pass(written, small) if self.folded else Pass(small, written)

    def launch(self, n: int, x: Array, dy: Array, won: Array | None, to: Gradients) -> Launch:
        """Fill dw and db, and update their parameters where `to` says so; won: where dy is what a 2 x 2 pool sends
        back, whom it goes to.
        """
        of = self.of
        still, seen = (x, dy) if self.folded else (dy, x)
        kernel = self.device.kernel(
            WEIGHTS, f"correlate_few_pixels<{self.kind.name}, {of.way}, {'true' if self.pool else 'false'}>"
        )
        (rows, columns), across, (m, high, wide), c = of.tile, ceil_div(of.image[1], of.tile[1]), of.written, of.read[0]
        inverses = map(inverse, (of.tiles, across, columns, of.halo[1]))
        cluster = min(CLUSTER, n * of.tiles)
        sums = 4 * STILL * (SEEN * (16 if self.folded else 9) + 1)
        staged = PIXELS * row_bytes(STILL, self.kind) + prod(of.halo) * row_bytes(SEEN, self.kind)
        kept = 0 if to.updated[1] is None else 4 * STILL * SEEN * 9 * (2 if to.updated[2] is not None else 1)
        return kernel.bind(
            (cluster, ceil_div(m, STILL), ceil_div(c, SEEN)), GROUP, still, won if self.pool else None, seen, to.dw, to.db, n, m, c, high, wide,
            rows, columns, of.tiles, across, *inverses, max(sums, staged) // 4, *to.updated, shared=max(sums, staged) + kept, cluster=cluster,
        )  # fmt: skip
