"""Average pooling as array expressions: a pass over the batch for each offset in a window, or one sum."""

from ...nets import Layer
from ..engine.base import Buffers, Op, module_of
from .reference import positions


class ArrayAvgPool2d(Op):
    """Average pooling as array expressions: y = the mean of each window; dx = sum of dy / area over the windows that
    hold a pixel.
    """

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
