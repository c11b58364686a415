"""Linear layer, and the ReLU after it, by square tiles in shared memory."""

from pathlib import Path

from ...device import Array, Device
from ...device.occupancy import blocks_per_multiprocessor
from ..cost.launch import parts_of_sums
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands, Segment
from ..sums.tiled import PartSums

TILED = Path(__file__).with_name("tiled.cu")
#: Terms of a sum that a block takes at a time, as in tiled.cu; and fewest terms in a part of a sum.
DEPTH = 32
LEAST = 2 * DEPTH
#: Cost of a copying step for a warp: instructions, and cycles of waiting for the copied numbers.
INSTRUCTIONS, WAITS = 120, 800


def side(block_size: int) -> int:
    """Side of the tile: the largest of 8, 16 and 32 whose square is at most the block size, or 8."""
    return 32 if block_size >= 1024 else 16 if block_size >= 256 else 8


class TiledLinear(Segment):
    """Linear layer by one tiled product for each of y, dx, and dw with db. ReLU is applied as y is written, its mask as
    dy is read.

    A block has side * side threads, by `side`: 64 for 8 x 8 tiles, 256 for 16 x 16, 1,024 for 32 x 32. If the tiles are
    too few to occupy the device, each sum is split into parts, which a second launch adds in order.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers = operands.buffers
        (self.capacity, self.inputs), self.outputs = buffers.x.shape, buffers.y.shape[1]
        self.fused_relu = len(self.layers) > 1
        self.side = side(block_size)
        self.adding = PartSums(device, block_size)
        names = (f"multiply<{self.side}, {form}>" for form in ("true, true", "true, false", "false, false"))
        self.along, self.across, self.turned = (device.kernel(TILED, name) for name in names)
        products = [(self.capacity, self.outputs, self.inputs)]
        if buffers.dy is not None:
            products += [(self.outputs, self.inputs + 1, self.capacity)]
        if buffers.dx is not None:
            products += [(self.capacity, self.inputs, self.outputs)]
        self.parts = {product: self._parts(*product) for product in products}
        needed = [count * m * n for (m, n, _), count in self.parts.items() if count > 1]
        self.scratched = self.scratch((max(needed),)) if needed else None

    def _tiles(self, m: int, n: int) -> int:
        return ceil_div(m, self.side) * ceil_div(n, self.side)

    def _parts(self, m: int, n: int, k: int) -> int:
        limits, threads = self.device.limits, self.side**2

        def work(count: int) -> tuple[float, float]:
            steps = ceil_div(ceil_div(k, count), DEPTH)
            return steps * INSTRUCTIONS, steps * WAITS

        resident = blocks_per_multiprocessor((threads, 1, 1), 0, self.along.resources, limits)
        return parts_of_sums(self._tiles(m, n), ceil_div(k, LEAST), m * n, resident, threads // 32, work, limits)

    def forward(self, part: Slice) -> Launches:
        """Launches of y = x w^T + b."""
        t, n = self.buffers, part.n
        count = self.parts[self.capacity, self.outputs, self.inputs]
        grid, depth = self._grid(n, self.outputs, self.inputs, count)
        shape = n, self.outputs, self.inputs, depth
        if count == 1:
            arguments = t.x, None, t.w, t.b, t.y, None, 0, *shape, int(self.fused_relu)
            return [self.along.bind(grid, self.side**2, *arguments)]
        scratch, size = self._scratch(), n * self.outputs
        return [
            self.along.bind(grid, self.side**2, t.x, None, t.w, None, scratch, None, size, *shape, 0),
            self.adding.outputs(scratch, count, t.b, t.y, n, self.outputs, self.fused_relu),
        ]

    def backward(self, part: Slice) -> Launches:
        """Launches of dw = dy^T x, db = dy^T 1, and dx = dy w; dy is masked by y if a ReLU follows."""
        t, n = self.buffers, part.n
        return [*self._weights(n), *(self._input(n) if t.dx is not None else [])]

    def _weights(self, n: int) -> Launches:
        t, relu_mask = self.buffers, self._relu_mask()
        count = self.parts[self.outputs, self.inputs + 1, self.capacity]
        grid, depth = self._grid(self.outputs, self.inputs + 1, n, count)
        shape = self.outputs, self.inputs, n, depth
        if count == 1:
            return [self.turned.bind(grid, self.side**2, t.dy, relu_mask, t.x, None, t.dw, t.db, 0, *shape, 0)]
        scratch, size = self._scratch(), self.outputs * (self.inputs + 1)
        biases = scratch[self.outputs * self.inputs :]
        return [
            self.turned.bind(grid, self.side**2, t.dy, relu_mask, t.x, None, scratch, biases, size, *shape, 0),
            self.adding.gradients(scratch, count, t.dw, t.db),
        ]

    def _input(self, n: int) -> Launches:
        t, relu_mask = self.buffers, self._relu_mask()
        count = self.parts[self.capacity, self.inputs, self.outputs]
        grid, depth = self._grid(n, self.inputs, self.outputs, count)
        shape = n, self.inputs, self.outputs, depth
        if count == 1:
            return [self.across.bind(grid, self.side**2, t.dy, relu_mask, t.w, None, t.dx, None, 0, *shape, 0)]
        scratch, size = self._scratch(), n * self.inputs
        return [
            self.across.bind(grid, self.side**2, t.dy, relu_mask, t.w, None, scratch, None, size, *shape, 0),
            self.adding.outputs(scratch, count, None, t.dx, n, self.inputs, False),
        ]

    def _grid(self, m: int, n: int, k: int, count: int) -> tuple[tuple[int, int], int]:
        """Grid of tiles and split-K parts, and terms of a part; a part without terms writes zeros."""
        return (self._tiles(m, n), count), ceil_div(ceil_div(k, count), DEPTH) * DEPTH

    def _relu_mask(self) -> Array | None:
        return self.buffers.y if self.fused_relu else None

    def _scratch(self) -> Array:
        assert self.scratched is not None
        return self.scratched
