"""A run of layers by the ops that another table has for them, one after the other."""

from __future__ import annotations

from typing import ClassVar

from ..device import Array, Device
from ..nets import Layer, ReLU, Shape
from .base import Buffers
from .kernels import KernelOp, KernelTable, Launches


class Apart(KernelOp):
    """What one op of the net's own table computes at once; what stands between the layers has arrays of its own here.

    table : whose ops they are.
    """

    table: ClassVar[KernelTable]
    rectifies = True

    def __init__(self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, block_size: int) -> None:
        super().__init__(device, layers, buffers, block_size)
        capacity, shape = len(buffers.x), tuple(buffers.x.shape[1:])
        self.ops: list[KernelOp] = []
        x, dx, trained = buffers.x, buffers.dx, False
        cut = _cut(layers, shape, self.table)
        for at, (some, kind) in enumerate(cut):
            weights: list[Array | None] = [None] * 4
            for layer in some:
                if layer.param_shapes(shape):
                    weights, trained = [buffers.w, buffers.b, buffers.dw, buffers.db], True
                shape = layer.out_shape(shape)
            last = at == len(cut) - 1
            y = buffers.y if last else self.scratch((capacity, *shape))
            wanted = buffers.dy is not None and (trained or dx is not None)
            dy = None if not wanted else buffers.dy if last else self.scratch((capacity, *shape))
            self.ops.append(kind(device, some, Buffers(x, y, dx, dy, *weights), block_size))
            self.workspace += self.ops[-1].workspace
            x, dx = y, dy
        t = buffers
        self.below = None if t.dx is None else self.table.layers[ReLU,](device, (ReLU(),), Buffers(t.x, t.x, t.dx, t.dx), block_size)

    @classmethod
    def takes(cls, layers: tuple[Layer, ...], in_shape: Shape) -> bool:
        return bool(_cut(layers, in_shape, cls.table))

    def prepare(self, n: int) -> Launches:
        return [call for op in self.ops for call in op.prepare(n)]

    def forward(self, n: int) -> Launches:
        return [call for op in self.ops for call in op.forward(n)]

    def backward(self, n: int) -> Launches:
        found = [call for op in reversed(self.ops) if op.buffers.dy is not None for call in op.backward(n)]
        return found + (self.below.backward(n) if self.below is not None and self.x_rectified else [])


def _cut(layers: tuple[Layer, ...], shape: Shape, table: KernelTable) -> list[tuple[tuple[Layer, ...], type[KernelOp]]]:
    """The runs of layers that a table has, each with its op; none where it does not have them all."""
    out: list[tuple[tuple[Layer, ...], type[KernelOp]]] = []
    while layers:
        found = table.longest(layers, shape)
        if found is None:
            return []
        length, kind = found
        out.append((layers[:length], kind))
        for layer in layers[:length]:
            shape = layer.out_shape(shape)
        layers = layers[length:]
    return out
