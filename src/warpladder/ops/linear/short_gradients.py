"""Gradients of a linear layer on a short batch: a launch for dw and db, and a launch for dx, without partials."""

from collections.abc import Sequence
from pathlib import Path

from ...device import Array, Launch, Limits
from ..engine.base import Buffers
from ..engine.kernels import ceil_div
from .short import ROWS, THREADS

SHORT_GRADIENTS = Path(__file__).with_name("short_gradients.cu")

#: Largest number of samples that one block sums for the weight gradient.
MOST = 256
#: Outputs and inputs of a block of the weight gradient, and samples in shared memory at a time (weight_tile.cuh).
Tile = tuple[int, int, int]
TILES: tuple[Tile, ...] = ((16, 32, 256), (32, 32, 128), (32, 64, 64))
#: Inputs of a block of the input gradient.
COLUMNS = (8, 16, 32)
#: Most bytes that all blocks of the input gradient read: with more, tiles of `gemm` take less time.
MOST_BYTES = 8 << 20


def fits(limits: Limits, n: int, inputs: int, outputs: int) -> bool:
    """True if a layer's gradients by these kernels are faster than by tiles: few samples, and few bytes for each."""
    columns = _columns(limits, n, inputs)
    if columns is None or n > MOST:
        return False
    return 4 * outputs * (2 * ROWS + columns) * _blocks(n, inputs, columns) <= MOST_BYTES


def weight_tile(limits: Limits, layers: Sequence[tuple[int, int]]) -> Tile:
    """Smallest tile of which a device runs all at once, two on each multiprocessor.

    layers : inputs and outputs of each layer whose weight gradient one launch computes.
    """

    def runs_at_once(tile: Tile) -> bool:
        grids = [tile_grid(tile, *layer) for layer in layers]
        return sum(across * down for across, down in grids) <= 2 * limits.multiprocessors

    fitting = (tile for tile in TILES if tile_shared(tile) <= limits.shared_opt_in and runs_at_once(tile))
    return next(fitting, TILES[-1])


def tile_grid(tile: Tile, inputs: int, outputs: int) -> tuple[int, int]:
    """Tiles across the outputs and down the inputs of a layer's weight gradient."""
    return ceil_div(outputs, tile[0]), ceil_div(inputs, tile[1])


def tile_shared(tile: Tile) -> int:
    """Bytes of shared memory of a tile: rows of samples, later the threads' sums and their parts of db."""
    across, down, samples = tile
    return 4 * max(samples * (across + down + 8), THREADS * 17)


def weight_gradient(t: Buffers, y: Array | None, n: int) -> Launch:
    """Launch of dw and db from x[:n] and dy[:n]; dy is masked where y, unless None, is not above 0."""
    inputs, outputs, device = t.x.shape[1], t.y.shape[1], t.x.device

    tile = weight_tile(device.limits, [(inputs, outputs)])
    kernel = device.kernel(
        SHORT_GRADIENTS, f"short_weight_gradient<{', '.join(map(str, (_wide(inputs, outputs), *tile)))}>"
    )
    grid, arrays = tile_grid(tile, inputs, outputs), (t.x, t.dy, y, t.dw, t.db)
    return kernel.bind(grid, THREADS, *arrays, n, inputs, outputs, shared=tile_shared(tile))


def input_gradient(t: Buffers, y: Array | None, n: int) -> Launch:
    """Launch of dx[:n] from dy[:n] and w; dy is masked where y, unless None, is not above 0."""
    inputs, outputs, device = t.x.shape[1], t.y.shape[1], t.x.device
    columns = _columns(device.limits, n, inputs) or COLUMNS[-1]
    kernel = device.kernel(SHORT_GRADIENTS, f"short_input_gradient<{_wide(inputs, outputs)}, {columns}>")
    depth = min(ceil_div(outputs, 4) * 4, _most_outputs(device.limits, columns))
    pitch = ceil_div(depth, 16) * 16 + 8
    shared = 4 * max(ROWS * pitch + depth * columns, THREADS // 32 * ROWS * columns)  # later the warps' sums
    grid = ceil_div(n, ROWS), ceil_div(inputs, columns)
    return kernel.bind(grid, THREADS, t.dy, y, t.w, t.dx, n, inputs, outputs, depth, shared=shared)


def _columns(limits: Limits, n: int, inputs: int) -> int | None:
    """Fewest inputs of a block so that all blocks run at once, two on a multiprocessor; None if there are too many."""
    return next((c for c in COLUMNS if _blocks(n, inputs, c) <= 2 * limits.multiprocessors), None)


def _blocks(n: int, inputs: int, columns: int) -> int:
    return ceil_div(n, ROWS) * ceil_div(inputs, columns)


def _most_outputs(limits: Limits, columns: int) -> int:
    """Largest number of outputs, a multiple of 16, for which shared memory holds a block's numbers."""
    return (limits.shared_opt_in // 4 - 8 * ROWS) // (ROWS + columns) // 16 * 16


def _wide(inputs: int, outputs: int) -> int:
    return int(inputs % 4 == 0 and outputs % 4 == 0)
