"""Linear layer, and the ReLU after it, on tensor cores; the launch that computes a factor packs it once."""

from pathlib import Path

import numpy as np

from ....device import Device
from ....nets import Linear, ReLU
from ...engine.chain import Slice, Subgraph
from ...engine.kernels import Launches, ceil_div
from ...engine.segments import Operands
from ...update.fused import UpdatesInPlace, settings
from .packed import BLOCK, EXACT, FORMATS, Formats, Outlet, PackedFactor, pack, pack_samples
from .products import NOWHERE, ProductEnd, TensorProduct

BIAS = Path(__file__).with_name("bias.cu")
#: Outputs, and warps, of a block of `finish_bias`.
COLUMNS, PARTS = 32, 8


class TensorLinear(UpdatesInPlace):
    """Segment [Gather,] Linear [, ReLU]: y = x w' + b, dw = dy' x, dx = dy w on tensor cores, in the chain's precision.

    A step packs each matrix once, for both directions in which it sums over it: w before the samples are read; x and dy
    by the products that compute them (x of a first layer from the stored samples), with the ReLU's mask and the sums
    for the bias. After or before a segment of another class a separate launch packs. If SGD has a constant rate, the
    product that finishes dw updates the weights and packs them for the next step. In fp32, samples stored as bytes stay
    bytes, exact in one half each: y and dw take two products instead of three, and x half of the memory; the sums are
    scaled.

    has_packed_x : True if the previous segment packs x, and reads dx packed.
    has_packed_dy : True if the next segment packs dy.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        t, self.kind = operands.buffers, FORMATS[subgraph.precision]
        self.fused_relu = isinstance(subgraph.layers[-1], ReLU)
        (capacity, inputs), outputs = t.x.shape, t.y.shape[1]
        self.inputs, self.outputs, kind = inputs, outputs, self.kind
        trains, passes = t.dy is not None, t.dx is not None
        samples = operands.samples
        self.of_x, scale = kind, None
        if subgraph.precision == "fp32" and samples is not None and samples.stored.dtype == np.uint8:
            self.of_x, scale = EXACT, samples.scale
        across = PackedFactor(self, inputs, capacity, self.of_x, scale) if trains else None
        self.x = Outlet(PackedFactor(self, capacity, inputs, self.of_x, scale), across)
        along = PackedFactor(self, outputs, inputs, kind)
        self.w = Outlet(along, PackedFactor(self, inputs, outputs, kind) if passes else None)
        self.y = TensorProduct(self, lambda n: (n, outputs, inputs), capacity, Formats(kind, self.of_x, kind))
        self.products["y"] = self.y.plan
        if trains:
            sums = self.scratch((ceil_div(capacity, BLOCK), outputs))
            of_dy = PackedFactor(self, capacity, outputs, kind) if passes else None
            self.dy = Outlet(of_dy, PackedFactor(self, outputs, capacity, kind), sums)
            self.dw = TensorProduct(self, lambda n: (outputs, inputs, n), capacity, Formats(kind, kind, self.of_x))
            self.products["dw"] = self.dw.plan
        if passes:
            self.dx = TensorProduct(self, lambda n: (n, inputs, outputs), capacity, Formats.alike(kind))
            self.products["dx"] = self.dx.plan
        self.has_packed_dy, self.to_y, self.to_dx, self.masks_dx = False, Outlet(), Outlet(), False
        self.has_packed_x = isinstance(operands.previous, TensorLinear)
        if isinstance(operands.previous, TensorLinear):
            self.to_dx, self.masks_dx = operands.previous.exchange(self.x, passes)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return isinstance(subgraph.layers[0], Linear) and subgraph.precision in FORMATS

    def exchange(self, packed_y: Outlet, packs_dy: bool) -> tuple[Outlet, bool]:
        """Set the destination of packed y for the next segment.

        Returns the destination of dy, if the next segment `packs_dy`, and True if that segment applies this one's ReLU
        mask.
        """
        self.to_y, self.has_packed_dy = packed_y, packs_dy
        return (self.dy, self.fused_relu) if packs_dy else (Outlet(), False)

    def repacks(self, part: Slice) -> bool:
        """True if `backward` updates the weights and leaves them packed."""
        return self.update is not None and part.is_whole

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        if repeated and self.repacks(part):
            return []
        return [pack(self, self.kind, self.buffers.w, self.outputs, self.inputs, self.w)]

    def forward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        assert self.w.along is not None and self.x.along is not None
        end = ProductEnd(t.b, self.fused_relu)
        product = self.y.launch(n, self.x.along, self.w.along, t.y, end, to=self.to_y)
        return [product] if self.has_packed_x else [*self._packing(part), product]

    def _packing(self, part: Slice) -> Launches:
        """Launches that pack x: two for stored samples, because dw may still read its factor while y's is packed."""
        samples, target, x, batch = self.operands.samples, self.operands.target, self.x, self.subgraph.batch
        if samples is None:
            return [pack(self, self.kind, self.buffers.x, part.n, self.inputs, x)]
        found: Launches = [pack_samples(self, self.of_x, samples, self.buffers.x, target, part, batch, Outlet(x.along))]
        if x.across is not None:
            found.append(pack_samples(self, self.of_x, samples, None, None, part, batch, Outlet(None, x.across)))
        return found

    def backward(self, part: Slice) -> Launches:
        t, n, dy = self.buffers, part.n, self.dy
        assert dy.across is not None and self.x.across is not None
        found: Launches = []
        if not self.has_packed_dy:
            found.append(pack(self, self.kind, t.dy, n, self.outputs, dy, t.y if self.fused_relu else None))
        if dy.along is not None and self.w.across is not None:  # before dw, whose launch packs new weights
            dx = None if self.to_dx.across is not None else t.dx
            end = ProductEnd(relu_mask=t.x if self.masks_dx else None)
            found.append(self.dx.launch(n, dy.along, self.w.across, dx, end, to=self.to_dx))
        update, packed = self.update, self.w if self.repacks(part) else NOWHERE
        found.append(self.dw.launch(n, dy.across, self.x.across, t.dw, to=packed, updated=settings(update, part, t.dw)))
        arguments = dy.sums, ceil_div(n, BLOCK), self.outputs, t.db, *settings(update, part, t.db)
        kernel = self.device.kernel(BIAS, "finish_bias")
        return [*found, kernel.bind(ceil_div(self.outputs, COLUMNS), 32 * PARTS, *arguments)]
