"""Sums of split-K partials by trees: the second launch of a sum that was split so that more blocks share it."""

from pathlib import Path

from ...device import Array, Device, Launch
from ..engine.kernels import OnDevice, ceil_div

TILED = Path(__file__).with_name("tiled.cu")
#: Numbers that a block adds up, and its threads.
ACROSS, DOWN = 32, 8


class PartSums(OnDevice):
    """Last launch of an op whose sums were split into parts."""

    def __init__(self, device: Device, block_size: int) -> None:
        super().__init__(device, block_size)
        self.gradients_kernel = device.kernel(TILED, "add_gradients")
        self.outputs_kernel = device.kernel(TILED, "add_outputs")

    def gradients(self, parts: Array, count: int, dw: Array, db: Array) -> Launch:
        """Launch that adds `count` parts to dw and db; each part has the numbers of dw, then those of db."""
        blocks = ceil_div(dw.size + db.size, ACROSS)
        return self.gradients_kernel.bind(blocks, (ACROSS, DOWN), parts, count, dw, dw.size, db, db.size)

    def outputs(
        self, parts: Array, count: int, bias: Array | None, y: Array, rows: int, columns: int, fused_relu: bool
    ) -> Launch:
        """Launch that adds `count` parts (rows, columns) to y[:rows], with bias and ReLU if there are any."""
        blocks, size = ceil_div(rows * columns, ACROSS), rows * columns
        return self.outputs_kernel.bind(blocks, (ACROSS, DOWN), parts, count, bias, y, size, columns, int(fused_relu))
