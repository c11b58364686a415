"""Consecutive layers computed by several segments of another table."""

from dataclasses import replace
from typing import ClassVar

from ...device import Array, Device
from ...nets import ReLU
from .base import Buffers
from .chain import Slice, Subgraph, subgraph
from .kernels import Launches
from .segments import KernelTable, Operands, Segment


class SeparateSegments(Segment):
    """Several segments of `table` as one; arrays between them are scratch memory."""

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
            weights: dict[str, Array | None] = {} if own else dict.fromkeys(("w", "b", "dw", "db"))
            trained = trained or own
            last = at == len(cut) - 1
            y = buffers.y if last else self.scratch((capacity, *part.out_shape))
            wanted = buffers.dy is not None and (trained or dx is not None)
            dy = None if not wanted else buffers.dy if last else self.scratch((capacity, *part.out_shape))
            bound = Operands(replace(buffers, x=x, y=y, dx=dx, dy=dy, **weights))
            self.segments.append(kind(device, part, bound, block_size))
            self.workspace += self.segments[-1].workspace
            x, dx = y, dy
        self.relu = self._relu_before() if buffers.dx is not None and operands.masks_dx else None

    def _relu_before(self) -> Segment:
        """Segment for the backward pass of the ReLU whose output is x."""
        whole, t = self.subgraph, self.buffers
        relu = subgraph((ReLU(),), whole.shapes[0], whole.capacity, whole.limits)
        return self.table.segments[ReLU,](self.device, relu, Operands(Buffers(t.x, t.x, t.dx, t.dx)), self.block_size)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return cls.table.cut(subgraph) is not None

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        return [call for segment in self.segments for call in segment.prepare(part, repeated)]

    def forward(self, part: Slice) -> Launches:
        return [call for segment in self.segments for call in segment.forward(part)]

    def backward(self, part: Slice) -> Launches:
        trained = [segment for segment in reversed(self.segments) if segment.buffers.dy is not None]
        if self.relu is not None:
            trained.append(self.relu)
        return [call for segment in trained for call in segment.backward(part)]
