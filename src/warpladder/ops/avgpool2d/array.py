"""Average pooling as one pass over the whole batch for each place in the window, or one sum over the plane."""

from ...nets import Layer
from ..engine.base import Buffers, Op, module_of
from .reference import positions


class ArrayAvgPool2d(Op):
    """y = the mean of each window; dx = the sum of dy over the windows of a pixel, each divided by its area."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        shape = buffers.x.shape[1:]
        rows, columns, _ = self.layer.window(shape)
        self.share = buffers.x.dtype.type(1 / (rows * columns))
        self.is_plane = (rows, columns) == shape[1:]
        self.scaled = self.scratch(buffers.y, buffers.y.shape) if buffers.dx is not None else None

    def forward(self, n: int) -> None:
        t = self.buffers
        x, y = t.x[:n], t.y[:n]
        if self.is_plane:
            module_of(x).sum(x, axis=(2, 3), keepdims=True, out=y)
        else:
            first, *others = positions(self.layer, x)
            y[...] = first
            for part in others:
                y += part
        y *= self.share

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None or self.scaled is None:
            return
        dx, scaled = t.dx[:n], self.scaled[:n]
        module_of(dx).multiply(t.dy[:n], self.share, out=scaled)
        if self.is_plane:
            dx[...] = scaled
            return
        dx[...] = 0
        for target in positions(self.layer, dx):
            target += scaled
