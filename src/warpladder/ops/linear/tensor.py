"""Linear, and the ReLU after it, on tensor cores."""

from __future__ import annotations

from ...device import Device
from ...nets import Linear, ReLU
from ..chain import Slice, Subgraph
from ..kernels import Launches
from ..segments import Operands, Segment
from .products import BiasGradient
from .tensor_products import FORMATS, TensorProduct


class TensorLinear(Segment):
    """Linear [, ReLU]: y = x w' + b, dw = dy' x and dx = dy w on tensor cores, in the chain's precision. With a ReLU `backward` overwrites dy."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        t, precision = operands.buffers, subgraph.precision
        self.rectify = isinstance(subgraph.layers[-1], ReLU)
        (capacity, inputs), outputs = t.x.shape, t.y.shape[1]
        self.y = TensorProduct(self, lambda n: (n, outputs, inputs), capacity, True, True, precision)
        if t.dy is not None:
            self.bias = BiasGradient(self, t, self.rectify)
            self.dw = TensorProduct(self, lambda n: (outputs, inputs, n), capacity, False, False, precision)
        if t.dx is not None:
            self.dx = TensorProduct(self, lambda n: (n, inputs, outputs), capacity, True, False, precision)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return isinstance(subgraph.layers[0], Linear) and subgraph.precision in FORMATS

    def forward(self, part: Slice) -> Launches:
        t = self.buffers
        return self.y.launches(part.n, t.x, t.w, t.y, t.b, self.rectify)

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        bias, slabs = self.bias.launch(n)
        product, parts = self.dw.product(n, t.dy, t.x, t.dw)
        found: Launches = [bias, *self.bias.behind(product, self.dw.parts, parts, slabs)]
        return found if t.dx is None else [*found, *self.dx.launches(n, t.dy, t.w, t.dx)]
