"""A run of layers computed by several segments of another table, one after another."""

from __future__ import annotations

from typing import ClassVar

from ...device import Array, Device
from ...nets import ReLU
from .base import Buffers
from .chain import Slice, Subgraph, subgraph
from .kernels import Launches
from .segments import KernelTable, Operands, Segment


class SeparateSegments(Segment):
    """Several segments in place of one that computes the same layers; the arrays between them are scratch memory.

    table : the table of the segments.
    """

    table: ClassVar[KernelTable]
    fuses_relu_backward = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers, capacity = operands.buffers, subgraph.capacity
        self.segments: list[Segment] = []
        x, dx, trained = buffers.x, buffers.dx, False
        cut = self.table.cut(subgraph)
        assert cut is not None
        for at, (part, kind) in enumerate(cut):
            own = any(layer.param_shapes(shape) for layer, shape in zip(part.layers, part.shapes, strict=False))
            weights: list[Array | None] = [buffers.w, buffers.b, buffers.dw, buffers.db] if own else [None] * 4
            trained = trained or own
            last = at == len(cut) - 1
            y = buffers.y if last else self.scratch((capacity, *part.out_shape))
            wanted = buffers.dy is not None and (trained or dx is not None)
            dy = None if not wanted else buffers.dy if last else self.scratch((capacity, *part.out_shape))
            self.segments.append(kind(device, part, Operands(Buffers(x, y, dx, dy, *weights)), block_size))
            self.workspace += self.segments[-1].workspace
            x, dx = y, dy
        self.below = (
            self._below(device, buffers, subgraph, block_size) if buffers.dx is not None and operands.masks_dx else None
        )

    def _below(self, device: Device, t: Buffers, whole: Subgraph, block_size: int) -> Segment:
        """The backward pass of the ReLU that x came out of."""
        relu = subgraph((ReLU(),), whole.shapes[0], whole.capacity, whole.limits)
        return self.table.segments[ReLU,](device, relu, Operands(Buffers(t.x, t.x, t.dx, t.dx)), block_size)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return cls.table.cut(subgraph) is not None

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        return [call for segment in self.segments for call in segment.prepare(part, repeated)]

    def forward(self, part: Slice) -> Launches:
        return [call for segment in self.segments for call in segment.forward(part)]

    def backward(self, part: Slice) -> Launches:
        found = [
            call
            for segment in reversed(self.segments)
            if segment.buffers.dy is not None
            for call in segment.backward(part)
        ]
        return found + (self.below.backward(part) if self.below is not None else [])
