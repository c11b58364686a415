"""CUDA launcher of dropout."""

from pathlib import Path

import numpy as np

from ...data.order import layer_offset
from ...device import Array, Device
from ...nets import Dropout
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveDropout(Segment):
    """Dropout by one thread for each number: y = x m, dx = dy m; both passes compute the mask m."""

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        (self.layer,) = subgraph.layers
        self.kernel = device.kernel(NAIVE, "dropout")

    def forward(self, part: Slice) -> Launches:
        return self._masked(part, self.buffers.x, self.buffers.y, 0)

    def backward(self, part: Slice) -> Launches:
        t = self.buffers
        # the loss of the last slice has counted the step
        return [] if t.dx is None else self._masked(part, t.dy, t.dx, int(part.is_last))

    def _masked(self, part: Slice, a: Array, out: Array, done: int) -> Launches:
        layer, count, keys = self.layer, a[: part.n].size, self.operands.mask_key
        assert isinstance(layer, Dropout)
        key, step = (None, None) if keys is None else (keys.key, keys.step)
        threshold, scale = (0, 1.0) if keys is None else (layer.threshold, layer.scale)
        added = layer_offset(self.subgraph.layers_at[0])
        return [
            flat(
                self.kernel, count, self.block_size, a, out, key, step, done, self.subgraph.batch, part.offset,
                np.uint32(added), count // part.n, np.uint32(threshold), np.float32(scale), count,
            )
        ]  # fmt: skip
