"""Linear layer as fp32 matrix products by tiles; with few outputs, as kernels of thin.py."""

from ...device import Device
from ...nets import ReLU
from ..engine.base import Buffers
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from . import short, short_gradients
from .products import BiasGradient, Product
from .thin import MOST, Thin


class GemmLinear(Segment):
    """Segment Linear [, ReLU] by fp32 products. With a ReLU and more than a few outputs `backward` overwrites dy."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        is_thin, fused_relu = self.buffers.y.shape[1] <= MOST, isinstance(self.layers[-1], ReLU)
        self.passes: Thin | Wide = (Thin if is_thin else Wide)(self, self.buffers, fused_relu)

    def forward(self, part: Slice) -> Launches:
        return self.passes.forward(part.n)

    def backward(self, part: Slice) -> Launches:
        return self.passes.backward(part.n)


class Wide:
    """Linear layer by tiles: y = x w', dw = dy' x, dx = dy w; short batches by kernels of short.py."""

    def __init__(self, owner: Segment, t: Buffers, fused_relu: bool) -> None:
        self.device, self.buffers, self.fused_relu = owner.device, t, fused_relu
        (capacity, inputs), outputs = t.x.shape, t.y.shape[1]
        self.inputs, self.outputs = inputs, outputs
        self.y = Product(owner, lambda n: (n, outputs, inputs), capacity, a_along=True, b_along=True)
        owner.products["y"] = self.y.plan
        if t.dy is None:
            return
        self.dw = Product(owner, lambda n: (outputs, inputs, n), capacity, a_along=False, b_along=False)
        owner.products["dw"] = self.dw.plan
        if t.dx is not None:
            self.dx = Product(owner, lambda n: (n, inputs, outputs), capacity, a_along=True, b_along=False)
            owner.products["dx"] = self.dx.plan
        self.bias = BiasGradient(owner, t, fused_relu)

    def forward(self, n: int) -> Launches:
        t = self.buffers
        if short.fits(self.device.limits, n, self.outputs):
            return [short.forward(t, n, self.fused_relu)]
        return self.y.launches(n, t.x, t.w, t.y, t.b, self.fused_relu)

    def backward(self, n: int) -> Launches:
        t, y = self.buffers, self.buffers.y if self.fused_relu else None
        if t.dx is None and n <= short_gradients.MOST:
            return [short_gradients.weight_gradient(t, y, n)]
        if t.dx is not None and short_gradients.fits(self.device.limits, n, self.inputs, self.outputs):
            return [short_gradients.weight_gradient(t, y, n), short_gradients.input_gradient(t, y, n)]
        bias, partials = self.bias.launch(n)
        found: Launches = [bias]
        product, parts = self.dw.product(n, t.dy, t.x, t.dw)
        found += self.dw.plan.mark(self.bias.after(product, self.dw.parts, parts, partials))
        if t.dx is not None:
            found += self.dx.launches(n, t.dy, t.w, t.dx)
        return found
