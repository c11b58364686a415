"""CUDA launcher of residual connections."""

from pathlib import Path

from ...device import Array, Device
from ...nets import Branch, Shortcut, Sum
from ..engine.chain import Slice, Subgraph
from ..engine.grids import flat
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment

NAIVE = Path(__file__).with_name("naive.cu")


class NaiveResidual(Segment):
    """Residual layer by one thread for each number: a `Sum` adds x and the stored array, backward a `Branch` adds both
    gradients. What is only copied takes no launch where both arrays are one.
    """

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        (self.layer,) = subgraph.layers
        self.adding, self.copying = (device.kernel(NAIVE, f"residual_{name}") for name in ("add", "copy"))

    def forward(self, part: Slice) -> Launches:
        t = self.buffers
        if isinstance(self.layer, Sum):
            return self._added(part, t.x, t.skip, t.y)
        return self._copied(part, t.skip if isinstance(self.layer, Shortcut) else t.x, t.y)

    def backward(self, part: Slice) -> Launches:
        t = self.buffers
        if t.dx is None:
            return []
        if isinstance(self.layer, Branch) and t.dskip is not None:
            return self._added(part, t.dy, t.dskip, t.dx)
        return self._copied(part, t.dskip if isinstance(self.layer, Shortcut) else t.dy, t.dx)

    def _added(self, part: Slice, a: Array, b: Array, out: Array) -> Launches:
        count = out[: part.n].size
        return [flat(self.adding, count, self.block_size, a, b, out, count)]

    def _copied(self, part: Slice, a: Array, out: Array) -> Launches:
        if a.address == out.address:
            return []
        count = out[: part.n].size
        return [flat(self.copying, count, self.block_size, a, out, count)]
