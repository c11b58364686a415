"""Two segments with another element type between them: what a wide linear layer gives, and its gradient, are stored as
float64.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warpladder.device import Device
from warpladder.nets import Linear, ReLU
from warpladder.ops.engine.chain import Slice, Subgraph
from warpladder.ops.engine.grids import flat
from warpladder.ops.engine.kernels import Launches
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.tables import naive

SOURCE = Path(__file__).with_name("layers.cu")

#: Outputs from which a layer's are stored as float64.
WIDE = 5


class LinearToDoubles(Segment):
    """Linear that reads float32, and stores float64 where it has many outputs."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        number = {"float32": "float", "float64": "double"}[self.stores(subgraph)]
        names = "linear_to", "weight_gradient_of", "input_gradient_of"
        self.kernels = [device.kernel(SOURCE, f"{name}<{number}>") for name in names]
        self.size = self.buffers.x.shape[1], self.buffers.y.shape[1]

    @classmethod
    def stores(cls, subgraph: Subgraph) -> str:
        (size,) = subgraph.out_shape
        return "float64" if size >= WIDE else "float32"

    def forward(self, part: Slice) -> Launches:
        t, n, (inputs, outputs) = self.buffers, part.n, self.size
        return [flat(self.kernels[0], n * outputs, self.block_size, t.x, t.w, t.b, t.y, n, inputs, outputs)]

    def backward(self, part: Slice) -> Launches:
        t, n, (inputs, outputs) = self.buffers, part.n, self.size
        found: Launches = [flat(self.kernels[1], t.dw.size, self.block_size, t.x, t.dy, t.dw, t.db, n, inputs, outputs)]
        if t.dx is not None:
            found.append(flat(self.kernels[2], n * inputs, self.block_size, t.dy, t.w, t.dx, n, inputs, outputs))
        return found


class ReLUOfDoubles(Segment):
    """ReLU of float64, and of nothing else, to float32."""

    reads = ("float64",)

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        names = "relu_of_doubles", "relu_gradient_in_doubles"
        self.there, self.back = (device.kernel(SOURCE, name) for name in names)

    def forward(self, part: Slice) -> Launches:
        t = self.buffers
        count = t.x[: part.n].size
        return [flat(self.there, count, self.block_size, t.x, t.y, count)]

    def backward(self, part: Slice) -> Launches:
        t = self.buffers
        count = t.x[: part.n].size
        return [flat(self.back, count, self.block_size, t.y, t.dy, t.dx, count)]


TABLE = replace(naive.TABLE, segments={**naive.TABLE.segments, (Linear,): LinearToDoubles, (ReLU,): ReLUOfDoubles})
