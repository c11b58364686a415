"""Linear, and the ReLU after it, on tensor cores, with factors that are packed once."""

from __future__ import annotations

from ...device import Device
from ...nets import Linear, ReLU
from ..chain import Slice, Subgraph
from ..kernels import Launches, ceil_div
from ..segments import Operands, Segment
from .products import add_gradients
from .tensor_multiply import PackedProduct
from .tensor_packed import BLOCK, FORMATS, PackedFactor, pack


class PackedLinear(Segment):
    """Linear [, ReLU]: y = x w' + b, dw = dy' x and dx = dy w on tensor cores, in the chain's precision.

    The weights are packed before a step sees its samples, x before y, and dy before dw and dx, where ReLU's gradient and the bias's ride along: both ways
    that a matrix is summed over in a step are written from one reading.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        t, self.kind = operands.buffers, FORMATS[subgraph.precision]
        self.rectify = isinstance(subgraph.layers[-1], ReLU)
        (capacity, inputs), outputs = t.x.shape, t.y.shape[1]
        self.inputs, self.outputs, kind = inputs, outputs, self.kind
        self.x, self.w = PackedFactor(self, capacity, inputs, kind), PackedFactor(self, outputs, inputs, kind)
        self.y = PackedProduct(self, lambda n: (n, outputs, inputs), capacity, kind)
        self.products["y"] = self.y.plan
        self.x_across = self.w_across = self.dy = None
        if t.dy is not None:
            self.x_across, self.dy_across = PackedFactor(self, inputs, capacity, kind), PackedFactor(self, outputs, capacity, kind)
            self.dw = PackedProduct(self, lambda n: (outputs, inputs, n), capacity, kind)
            self.products["dw"] = self.dw.plan
            self.sums = self.scratch((ceil_div(capacity, BLOCK), outputs)) if capacity > BLOCK else None
        if t.dx is not None:
            self.w_across, self.dy = PackedFactor(self, inputs, outputs, kind), PackedFactor(self, capacity, outputs, kind)
            self.dx = PackedProduct(self, lambda n: (n, inputs, outputs), capacity, kind)
            self.products["dx"] = self.dx.plan

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return isinstance(subgraph.layers[0], Linear) and subgraph.precision in FORMATS

    def prepare(self, part: Slice) -> Launches:
        return [pack(self, self.kind, self.buffers.w, self.outputs, self.inputs, self.w, self.w_across)]

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        return [
            pack(self, self.kind, t.x, n, self.inputs, self.x, self.x_across),
            self.y.launch(n, self.x, self.w, t.y, t.b, self.rectify),
        ]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        assert self.x_across is not None
        blocks = ceil_div(n, BLOCK)
        sums = t.db if blocks == 1 else self.sums
        found: Launches = [
            pack(self, self.kind, t.dy, n, self.outputs, self.dy, self.dy_across, t.y if self.rectify else None, sums),
            self.dw.launch(n, self.dy_across, self.x_across, t.dw),
        ]
        if blocks > 1:
            found.append(add_gradients(self.device, (None, t.dw, 1, 0), (self.sums, t.db, blocks, self.outputs)))
        if self.dy is not None and self.w_across is not None:
            found.append(self.dx.launch(n, self.dy, self.w_across, t.dx))
        return found
