"""SumPool2d as sums of shifted views."""

from warpladder.ops.engine.base import Op


class ArraySumPool2d(Op):
    def __init__(self, layer, buffers):
        super().__init__(layer, buffers)
        self.k, (self.rows, self.columns) = layer.kernel_size, buffers.y.shape[2:]

    def windows(self, images):
        """The numbers at each of a window's k * k places, as views of the shape of y."""
        k, rows, columns = self.k, self.rows, self.columns
        return [images[:, :, p : rows * k : k, q : columns * k : k] for p in range(k) for q in range(k)]

    def forward(self, n):
        t = self.buffers
        y = t.y[:n]
        y[...] = 0
        for part in self.windows(t.x[:n]):
            y += part

    def backward(self, n):
        t = self.buffers
        if t.dx is not None:
            t.dx[:n] = 0
            for part in self.windows(t.dx[:n]):
                part[...] = t.dy[:n]


OP = ArraySumPool2d
