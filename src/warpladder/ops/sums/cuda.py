"""Sums over rows and columns as CUDA launches, and the two levels of a gradient's sum over samples."""

from pathlib import Path
from typing import Any

from ...device import Array, Device, Kernel, Launch
from ..engine.grids import by_sample, flat
from ..engine.kernels import Launches, OnDevice, ceil_div

NAIVE = Path(__file__).with_name("naive.cu")
#: Most rows that one thread adds up; longer columns are summed in partials, and then their sums.
PARTIAL = 256
#: Threads that keep a GPU busy; fewer sums than this are split into partials of samples.
BUSY = 1 << 18


class RowSums(OnDevice):
    """Row sums of a matrix: out[r] = sum over c of a[r, c]."""

    def __init__(self, device: Device, block_size: int) -> None:
        super().__init__(device, block_size)
        self.kernel = device.kernel(NAIVE, "sum_rows")

    def launch(self, a: Array, rows: int, columns: int, out: Array) -> Launch:
        """Launch that fills `out` (rows,) with the row sums of a (rows, columns)."""
        return flat(self.kernel, rows, self.block_size, a, out, rows, columns)


class ColumnSums(OnDevice):
    """Column sums of a matrix, out[c] = sum over r of a[r, c], for up to `most` rows.

    Partials of rows are summed concurrently, then added: this occupies more threads, and the rounding error grows with
    the square root of a partial's length, not of all rows.
    """

    def __init__(self, device: Device, most: int, columns: int, block_size: int) -> None:
        super().__init__(device, block_size)
        self.columns = columns
        self.kernel = device.kernel(NAIVE, "sum_columns")
        self.levels = []
        while most > PARTIAL:
            most = ceil_div(most, PARTIAL)
            self.levels.append(self.scratch((most, columns)))

    def launches(self, a: Array, rows: int, out: Array) -> Launches:
        """Launches that fill `out` (columns,) with the column sums of a (rows, columns)."""
        found: Launches = []
        for level in self.levels:
            if rows <= PARTIAL:
                break
            found.append(self._launch(a, rows, level))
            a, rows = level, ceil_div(rows, PARTIAL)
        return [*found, self._launch(a, rows, out)]

    def _launch(self, a: Array, rows: int, out: Array) -> Launch:
        partial = min(rows, PARTIAL)
        partials = ceil_div(rows, partial)
        arguments = a, out, self.columns, rows, partial, partials
        return by_sample(self.kernel, self.columns, partials, self.block_size, *arguments)


class SampleSums(OnDevice):
    """Sum of a gradient over samples: a kernel sums each partial of samples, a thread for each weight; then the
    partials are added.

    A single thread for each weight would leave a GPU idle if a layer has few weights, such as 144, each a sum over
    43,000 pixels.

    capacity : largest number of samples.
    weights : number of sums.
    least : smallest number of samples in a partial, unless there are fewer.
    """

    def __init__(self, device: Device, capacity: int, weights: int, least: int, block_size: int) -> None:
        super().__init__(device, block_size)
        self.weights, self.least = weights, least
        self.most = max(1, min(ceil_div(capacity, least), BUSY // weights))
        self.adding = ColumnSums(device, self.most, weights, block_size)
        self.parts = self.scratch((self.most, weights)) if self.most > 1 else None
        self.workspace += self.adding.workspace

    def launches(self, kernel: Kernel, n: int, out: Array, before: tuple[Any, ...], after: tuple[Any, ...]) -> Launches:
        """Launches that fill `out`. Kernel arguments: before, parts, weights, n, samples a partial, partials, after."""
        partial = max(self.least, ceil_div(n, self.most))
        partials = ceil_div(n, partial)
        parts = out if self.parts is None or partials == 1 else self.parts
        arguments = *before, parts, self.weights, n, partial, partials, *after
        found: Launches = [by_sample(kernel, self.weights, partials, self.block_size, *arguments)]
        return found if parts is out else [*found, *self.adding.launches(parts, partials, out)]
