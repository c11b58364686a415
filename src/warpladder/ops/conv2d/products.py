"""Convolutions in one direction as matrix products in fp32: packed weights, the product, the sum of its partials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...device import Array, Device, Launch, Limits
from ..cost.plans import Planner
from ..cost.tiles import ACROSS, CANDIDATES, PATCHES, GemmProblem, Tile, TilePlan, gemm
from ..engine.kernels import Launches, OnDevice, ceil_div
from .problem import ConvWindow, FusedConv, Image

GEMM = Path(__file__).with_name("gemm.cu")
PACK = Path(__file__).with_name("pack.cu")
#: Fewer input channels than this have rows of the product without padding (FEW in gemm.cu).
FEW = 8
#: Most numbers for each pixel of the small image for which a transpose computes all classes at once.
MERGED = 16
#: Directions of a product, as gemm.cu numbers them.
DIRECTIONS = ("FORWARD", "TRANSPOSED", "MERGED")
#: Operations after a convolution in its kernel, as gemm.cu numbers them.
AFTER = ("PLAIN", "RELU", "POOL")
#: Fours of pixels of a block of add_parts, and most threads for each.
ADDING, TURNS = 64, 16
#: Input and output channels of a block of pack.cu, and bytes of shared memory for the places of taps.
INPUTS, OUTPUTS, ENTRIES = 8, 32, 8 << 10


@dataclass(frozen=True)
class Geometry:
    """One direction of a convolution: the input image, the output image, and the window between them.

    read, written : (channels, rows, columns).
    k, stride, padding : window of the convolution; if `transposed`, of the convolution from `written` to `read`.
    transposed : True if each input pixel is added to a window of output pixels.
    fold : factor of the upsampling that is folded into the weights, of side k - fold + 1; 1 for none.
    swapped : True if the weights are stored as (read channels, written channels, ...), instead of written channels
    first.
    pool : True if a 2 x 2 pool follows.
    """

    read: Image
    written: Image
    k: int
    stride: int
    padding: int
    transposed: bool = False
    fold: int = 1
    swapped: bool = False
    pool: bool = False

    @property
    def direction(self) -> str:
        """Direction of the product: "FORWARD", "TRANSPOSED" or "MERGED"."""
        if not self.transposed:
            return "FORWARD"
        return "MERGED" if self.stride > 1 and self.stride**2 * self.written[0] <= MERGED else "TRANSPOSED"

    @classmethod
    def of(cls, conv: FusedConv) -> Geometry:
        """Geometry of a convolution's forward pass, for y."""
        window, transposed = conv.small_window, conv.upsamples
        return cls(conv.read, conv.written, *window, transposed=transposed, fold=conv.upsample, pool=conv.pool)

    @classmethod
    def back(cls, conv: FusedConv) -> Geometry:
        """Geometry of a convolution's input gradient dx, which reads the gradient of its output."""
        window, transposed = conv.small_window, not conv.upsamples
        return cls(conv.written, conv.read, *window, transposed=transposed, fold=conv.upsample, swapped=True)

    @property
    def window(self) -> ConvWindow:
        return ConvWindow(self.k, self.stride, self.padding)

    @property
    def few(self) -> bool:
        """True if the rows of the product are (channel, tap) without padding, as for few channels."""
        return self.read[0] < FEW and self.read[0] * self.taps <= 512

    @property
    def classes(self) -> int:
        """Number of phases of output pixels that are computed as separate products."""
        return self.stride**2 if self.direction == "TRANSPOSED" else 1

    @property
    def taps(self) -> int:
        """Largest number of pixels of an input channel that an output pixel reads, or all phases merged."""
        if self.direction == "MERGED":
            reach = [self._reach(phase) for phase in range(min(self.stride, self.k))]
            return (max(last for _, last in reach) - min(first for first, _ in reach)) ** 2
        return ceil_div(self.k, self.stride) ** 2 if self.transposed else self.k**2

    def _reach(self, phase: int) -> tuple[int, int]:
        """First tap of a phase, and the tap after its last (transposed_axis in gemm_patches.cuh)."""
        taps, begin = ceil_div(self.k - phase, self.stride), (phase - self.padding) % self.stride
        last = (begin + self.padding - phase) // self.stride + 1
        return last - taps, last

    def rows(self, tile: Tile) -> int:
        """Number of terms of each sum, padded to whole steps of the tile's depth."""
        channels = self.read[0]
        return self.taps * (channels if self.few else ceil_div(channels, tile.bk) * tile.bk)

    @property
    def columns(self) -> int:
        """Numbers computed for each pixel: output channels, times phases if MERGED."""
        return self.written[0] * (self.stride**2 if self.direction == "MERGED" else 1)

    @property
    def pixels(self) -> int:
        """Number of pixels of an image that one product computes; of the largest phase if TRANSPOSED."""
        _, high, wide = self.written
        if self.pool:
            return (high // 2) * (wide // 2) * 4
        return ceil_div(high, self.stride) * ceil_div(wide, self.stride) if self.transposed else high * wide

    def pitch(self, n: int) -> int:
        """Number of pixels of one phase of n images, rounded up to a multiple of 4."""
        return ceil_div(n * self.pixels, 4) * 4

    def class_size(self, tile: Tile) -> int:
        """Numbers in the packed weights of one phase."""
        return self.rows(tile) * ceil_div(self.columns, 4) * 4


class GemmConvolution:
    """One direction of a convolution as a matrix product, for up to `capacity` images; `owner` holds the scratch
    memory.
    """

    def __init__(self, owner: OnDevice, geometry: Geometry, capacity: int) -> None:
        self.device, self.geometry, limits = owner.device, geometry, owner.device.limits

        def problem(n: int) -> GemmProblem:
            sizes = geometry.columns, geometry.classes * geometry.pitch(n), geometry.rows
            return gemm(sizes, limits, copies=(ACROSS, PATCHES))

        self.plan: Planner[TilePlan] = Planner(problem, capacity)
        self.partials = owner.scratch((self.plan.partials,)) if self.plan.partials else None
        self.packed = owner.scratch((geometry.classes * max(geometry.class_size(tile) for tile in CANDIDATES),))

    def launches(
        self, n: int, x: Array, bias: Array | None, y: Array, relu: bool = False, argmax: Array | None = None,
        mask: Array | None = None,
    ) -> Launches:  # fmt: skip
        """Launches that fill y[:n] from x[:n] and the packed weights, with bias, ReLU and pool if there are any.

        mask : array of y's shape; y is 0 where mask is not above 0. None for no mask.
        """
        geometry, plan = self.geometry, self.plan(n)
        tile, whole, pitch = plan.tile, plan.parts == 1, geometry.pitch(n)
        after, outputs = "POOL" if geometry.pool else "RELU" if relu else "PLAIN", (bias, mask, y, argmax)
        done = after if whole else "POOLED_PARTS" if geometry.pool else "PARTS"
        few = "true" if geometry.few else "false"
        kernel = self.device.kernel(GEMM, f"convolve<{tile}, {geometry.direction}, {few}, {done}>")
        tiles = ceil_div(geometry.columns, tile.bm) * geometry.classes * ceil_div(n * geometry.pixels, tile.bn)
        table = 8 * geometry.rows(tile) if geometry.few else 0
        written = outputs if whole else (None, None, self.partials, None)
        shape = n, *geometry.read, *geometry.written, *geometry.window, geometry.class_size(tile), plan.depth, pitch
        grid, shared = (tiles, plan.parts), tile.shared + table
        product = kernel.bind(grid, tile.threads, x, self.packed, *written, *shape, shared=shared)
        if whole:
            return self.plan.mark([product])
        add = add_partials(self.device, geometry, n, (self.partials, plan.parts), outputs, AFTER.index(after))
        return self.plan.mark([product, add])

    def packing(self, n: int) -> tuple[Array, int, int, int]:
        """Arguments of `pack_weights` for n images: packed weights, direction, channels of a step, size of a phase's
        weights.
        """
        geometry, tile = self.geometry, self.plan(n).tile
        direction, block = DIRECTIONS.index(geometry.direction), 0 if geometry.few else tile.bk
        return self.packed, direction, block, geometry.class_size(tile)

    def packers(self, n: int) -> int:
        """Number of blocks of `pack_weights` that pack these weights."""
        geometry, tile = self.geometry, self.plan(n).tile
        inputs = geometry.read[0] if geometry.few else ceil_div(geometry.read[0], tile.bk) * tile.bk
        return ceil_div(inputs, INPUTS) * ceil_div(geometry.written[0] + -geometry.columns % 4, OUTPUTS)


def add_partials(
    device: Device, geometry: Geometry, n: int, partials: tuple[Array | None, int], outputs: tuple[Array | None, ...],
    after: int
) -> Launch:  # fmt: skip
    """Launch that adds the split-K partials of n images, and writes y.

    partials : array (parts, ...), and the number of parts.
    outputs : bias, mask, y and argmax, as `GemmConvolution.launches` takes them.
    after : index in `AFTER`.
    """
    (array, parts), (bias, mask, y, argmax), pitch = partials, outputs, geometry.pitch(n)
    fours, direction = geometry.classes * geometry.columns * (pitch // 4), DIRECTIONS.index(geometry.direction)
    numbers = parts, pitch, n, *geometry.written, *geometry.window, direction, after
    block = ADDING, turns(fours, parts, TURNS, device.limits)
    return device.kernel(GEMM, "add_parts").bind(ceil_div(fours, ADDING), block, array, bias, mask, y, argmax, *numbers)


def turns(sums: int, parts: int, most: int, limits: Limits) -> int:
    """Number of threads that share one sum of partials: more if there are few sums, to occupy the device."""
    found = 1
    while found < min(most, parts) and 2 * found * sums <= 1024 * limits.multiprocessors:
        found *= 2
    return found


def pack(n: int, w: Array, forward: GemmConvolution, backward: GemmConvolution | None) -> Launch:
    """Launch that packs the weights of a layer for n images: for y, and for dx unless `backward` is None."""
    geometry, half = forward.geometry, forward.packers(n)
    others = backward.packing(n) if backward is not None else (None, 0, 0, 0)
    blocks = half + (backward.packers(n) if backward is not None else 0)
    shared = 4 * OUTPUTS * (INPUTS * (geometry.k - geometry.fold + 1) ** 2 + 1)
    staged = shared <= forward.device.limits.shared_opt_in - ENTRIES
    window = geometry.written[0], geometry.read[0], geometry.k, geometry.fold, geometry.stride, geometry.padding
    arguments = w, *window, *forward.packing(n), *others, half, int(staged)
    kernel = forward.device.kernel(PACK, "pack_weights")
    return kernel.bind(blocks, 32 * INPUTS, *arguments, shared=shared if staged else 0)
