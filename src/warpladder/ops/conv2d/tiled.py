"""Conv2d and the ReLU after it, by tiles in shared memory."""

from dataclasses import astuple, dataclass
from pathlib import Path

from ...device import Array, Device, Launch, Resources
from ...device.occupancy import blocks_per_multiprocessor
from ...errors import LaunchError
from ...nets import Conv2d
from ..cost.launch import launch_cycles, parts_of_sums
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, OnDevice, ceil_div
from ..engine.segments import Operands, Segment
from ..sums.tiled import PartSums
from .tiled_shapes import cut, pitch

TILED = Path(__file__).with_name("tiled.cu")
#: Kernel size with kernels compiled for it; others take theirs at run time.
OWN = 3
#: Filters that a thread of `convolve` may compute, and threads that fit a multiprocessor by registers.
THREADS = {16: 768, 8: 768, 4: 1024}
#: Instructions for each number that is copied to shared memory, and cycles that a warp waits for a stage.
COPYING, ARRIVING = 5, 1500
#: Most channels of a stage in shared memory.
STAGE = 16
#: Most pixels of a tile, and warps of a block, in the weight gradient.
PIXELS, WARPS = 256, 16


@dataclass(frozen=True)
class TiledShape:
    """Shape of a correlation of images (channels, height, width) with filters: arguments of `convolve` in tiled.cu."""

    channels: int
    height: int
    width: int
    filters: int
    out_height: int
    out_width: int
    kernel: int
    step: int
    spread: int
    pad: int


@dataclass(frozen=True)
class TiledPlan:
    """Split of a correlation: filters of a thread, threads for a pixel, the tile, and a stage in shared memory."""

    each: int
    groups: int
    tile_height: int
    tile_width: int
    stage_channels: int
    stage_rows: int
    pitch: int
    shared: int

    @property
    def threads(self) -> int:
        return ceil_div(self.tile_height * self.tile_width * self.groups, 32) * 32

    def grid(self, shape: TiledShape, n: int) -> tuple[int, int]:
        tiles = ceil_div(shape.out_height, self.tile_height) * ceil_div(shape.out_width, self.tile_width)
        return n * tiles, ceil_div(shape.filters, self.each * self.groups)

    def work(self, shape: TiledShape) -> tuple[float, float]:
        """Instructions of a warp, and cycles that it waits for memory."""
        stages = ceil_div(shape.channels, self.stage_channels) * ceil_div(shape.kernel, self.stage_rows)
        rows = (self.tile_height - 1) * shape.step + self.stage_rows
        columns = (self.tile_width - 1) * shape.step + shape.kernel
        copied = self.stage_channels * (rows * columns + self.stage_rows * shape.kernel * self.each * self.groups)
        products = shape.channels * shape.kernel**2 * (1.25 * self.each + 2)
        return products + stages * COPYING * copied / self.threads, stages * ARRIVING


def plan(device: Device, shape: TiledShape, capacity: int, block_size: int) -> TiledPlan:
    """Plan of a correlation with the least time by the cost model."""

    def takes(found: TiledPlan) -> float:
        across, down = found.grid(shape, capacity)
        registers = Resources(registers=device.limits.registers_per_block // THREADS[found.each] // 8 * 8)
        resident = blocks_per_multiprocessor((found.threads, 1, 1), found.shared, registers, device.limits)
        return launch_cycles(across * down, resident, found.threads // 32, *found.work(shape), device.limits)

    plans = []
    for each in (each for each in THREADS if each < 2 * shape.filters or each == min(THREADS)):
        threads = min(block_size, THREADS[each])
        while threads >= min(64, block_size):
            plans.append(fit(device, shape, each, threads))
            threads //= 2
    return min(plans, key=takes)


def fit(device: Device, shape: TiledShape, each: int, threads: int) -> TiledPlan:
    """Plan with `each` filters a thread that fits shared memory, with fewer channels, smaller tiles or fewer rows."""
    capacity, k, s = device.limits.shared_per_block, shape.kernel, shape.step
    rows = k
    while True:
        height, width = cut(shape.out_height, shape.out_width, threads)
        groups = max(1, min(threads // (height * width), ceil_div(shape.filters, each)))
        columns = (width - 1) * s + k
        gap = pitch(height, width, columns, s)
        channel = 4 * (((height - 1) * s + rows) * gap + rows * k * groups * (each + 4 if each > 4 else each))
        channels = min(STAGE, shape.channels, capacity // channel)
        if channels > 0:
            return TiledPlan(each, groups, height, width, channels, rows, gap, channels * channel)
        if threads > 32 or rows == 1 or k == OWN:
            if threads == 1:
                raise LaunchError(
                    f"a convolution with {k} x {k} kernels does not fit into {capacity:,} bytes of shared memory "
                    f"on {device.name}"
                )
            threads //= 2
        else:
            rows = ceil_div(rows, 2)


class TiledConvolution(OnDevice):
    """Launcher of `convolve` for one shape, forward or backward."""

    def __init__(self, device: Device, shape: TiledShape, capacity: int, backward: bool, block_size: int) -> None:
        super().__init__(device, block_size)
        self.shape, self.plan = shape, plan(device, shape, capacity, block_size)
        own = OWN if shape.kernel == OWN else 0
        self.kernel = device.kernel(TILED, f"convolve<{own}, {self.plan.each}, {'true' if backward else 'false'}>")

    def launch(
        self, n: int, source: Array, relu_mask: Array | None, weight: Array, bias: Array | None, out: Array, relu: bool
    ) -> Launch:
        s, p = self.shape, self.plan
        geometry = astuple(s)
        tiling = p.tile_height, p.tile_width, p.groups, p.stage_channels, p.stage_rows, p.pitch
        arguments = source, relu_mask, weight, bias, out, *geometry, *tiling, int(relu)
        return self.kernel.bind(p.grid(s, n), p.threads, *arguments, shared=p.shared)


class TiledWeightGradient(OnDevice):
    """Launcher of `weight_gradient` for one layer, and of the sum of its split-K partials."""

    def __init__(self, device: Device, layer: Conv2d, x: Array, y: Array, block_size: int) -> None:
        super().__init__(device, block_size)
        capacity, self.channels, self.height, self.width = x.shape
        _, self.filters, self.out_height, self.out_width = y.shape
        self.layer = layer
        self.patch = 1 if layer.kernel_size == 1 else 3
        self.each = 8 if self.filters > 4 else 4
        self.kernel = device.kernel(TILED, f"weight_gradient<{self.patch}, {self.each}>")
        most = min(WARPS, block_size // 32)
        self.warps = ceil_div(self.channels + 1, ceil_div(self.channels + 1, most))
        self._fit()
        self.tiles = ceil_div(self.out_height, self.tile[0]) * ceil_div(self.out_width, self.tile[1])
        self.groups = ceil_div(self.filters, self.each)
        self.slots = ceil_div(self.channels + 1, self.warps) * ceil_div(layer.kernel_size, self.patch) ** 2
        self.size = self.filters * (self.channels * layer.kernel_size**2 + 1)
        self.parts = self._parts(capacity * self.tiles)
        self.adding = PartSums(device, block_size)
        self.scratched = self.scratch((self.parts, self.size)).reshape(-1) if self.parts > 1 else None

    def _parts(self, tiles: int) -> int:
        """Number of split-K parts for sums over `tiles` tiles."""
        limits, threads, pixels = self.device.limits, 32 * self.warps, self.tile[0] * self.tile[1]
        sums = self.each * self.patch**2

        def work(count: int) -> tuple[float, float]:
            copying = COPYING * (self.shared / 4 + self.each * pixels) / threads
            each = ceil_div(pixels, 32) * (sums + self.each + self.patch**2 + 25) + copying
            return ceil_div(tiles, count) * each + 4 * sums, ceil_div(tiles, count) * ARRIVING

        resident = blocks_per_multiprocessor((threads, 1, 1), self.shared, self.kernel.resources, limits)
        return parts_of_sums(self.groups * self.slots, tiles, self.size, resident, self.warps, work, limits)

    def _fit(self) -> None:
        """Set the largest tile, then the largest number of warps, that fit shared memory."""
        pixels, stride = PIXELS, self.layer.stride
        while True:
            self.tile = height, width = cut(self.out_height, self.out_width, pixels)
            self.pitch = pitch(height, width, (width - 1) * stride + self.patch, stride)
            rows = (height - 1) * stride + self.patch
            self.shared = 4 * (self.each * height * width + self.warps * rows * self.pitch)
            if self.shared <= self.device.limits.shared_per_block:
                return
            if pixels > 32 or self.warps == 1:
                pixels //= 2
            else:
                self.warps = ceil_div(self.warps, 2)

    def launches(self, n: int, x: Array, dy: Array, relu_mask: Array | None, dw: Array, db: Array) -> Launches:
        c = self.layer
        geometry = self.channels, self.height, self.width, self.filters, self.out_height, self.out_width
        arguments = n * self.tiles, *geometry, c.kernel_size, c.stride, c.padding, *self.tile, self.pitch
        grid, block = (self.parts, self.groups, self.slots), 32 * self.warps
        scratch = self.scratched
        if scratch is None:
            return [self.kernel.bind(grid, block, x, dy, relu_mask, dw, db, 0, *arguments, shared=self.shared)]
        arrays = x, dy, relu_mask, scratch, scratch[dw.size :]
        product = self.kernel.bind(grid, block, *arrays, self.size, *arguments, shared=self.shared)
        return [product, self.adding.gradients(scratch, self.parts, dw, db)]


class TiledConv2d(Segment):
    """Convolution by tiles of the image with their halo, and weights, in shared memory.

    ReLU is applied as y is written, its mask as dy is read. block_size bounds the pixels of a tile, which covers the
    image with the fewest warps: 8 x 8 for 64, 16 x 16 for 256 and 32 x 32 for 1,024 if the image is a multiple of them.
    Tiles are smaller if there would be too few to occupy the device. Registers limit blocks whose threads compute 8 or
    16 filters to 768 threads, and blocks of the weight gradient, with a channel for each warp, to 512.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers, layer = operands.buffers, subgraph.layers[0]
        assert isinstance(layer, Conv2d)
        self.relu = len(subgraph.layers) > 1
        capacity, c, h, w = buffers.x.shape
        _, o, oh, ow = buffers.y.shape
        k, stride, padding = layer.kernel_size, layer.stride, layer.padding
        forward = TiledShape(c, h, w, o, oh, ow, k, stride, 1, padding)
        self.forward_pass = TiledConvolution(device, forward, capacity, False, block_size)
        if buffers.dy is not None:
            self.weight_gradient = TiledWeightGradient(device, layer, buffers.x, buffers.y, block_size)
            self.workspace += self.weight_gradient.workspace
        if buffers.dx is not None:
            back = TiledShape(o, oh, ow, c, h, w, k, 1, stride, k - 1 - padding)
            self.input_gradient = TiledConvolution(device, back, capacity, True, block_size)

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        return [self.forward_pass.launch(n, t.x, None, t.w, t.b, t.y, self.relu)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        relu_mask = t.y if self.relu else None
        found = self.weight_gradient.launches(n, t.x, t.dy, relu_mask, t.dw, t.db)
        if t.dx is not None:
            found.append(self.input_gradient.launch(n, t.dy, relu_mask, t.w, None, t.dx, False))
        return found
