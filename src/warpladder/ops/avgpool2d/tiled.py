"""CUDA launcher of average pooling whose windows have many pixels."""

from pathlib import Path

from ..engine.chain import Slice
from ..engine.grids import flat
from ..engine.kernels import Launches
from .cuda import NaiveAvgPool2d

TILED = Path(__file__).with_name("tiled.cu")
#: Pixels of a window from which a warp adds them, and threads of a warp.
MANY, WARP = 32, 32


class TiledAvgPool2d(NaiveAvgPool2d):
    """Average pooling: a warp sums a window of many pixels, one thread a small one and each input's gradient."""

    def forward(self, part: Slice) -> Launches:
        t, (*shape, rows, columns, stride) = self.buffers, self.shape
        if rows * columns < MANY:
            return super().forward(part)
        kernel, count = self.device.kernel(TILED, "avgpool2d_by_warps"), part.n * self.outputs
        arguments = t.x, t.y, self.share, count, *shape, rows, columns, stride
        return [flat(kernel, WARP * count, self.block_size, *arguments)]
