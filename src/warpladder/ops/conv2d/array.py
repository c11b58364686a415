"""Convolution as matrix products with unfolded patches (im2col)."""

from ...nets import Conv2d, Layer
from ..engine.base import Array, Buffers, Op, module_of
from .patches import Patches, block_size, blocks


class ArrayConv2d(Op):
    """Convolution as a matrix product; it unfolds the side with fewer channels, a block of samples at a time.

    Input unfolded (c k k rows), W as a matrix A (o, c k k): y = A unfold(x), dA = dy unfold(x)', dx = fold(A' dy).
    Output unfolded (o k k rows; stride 1), A (c, o k k) is W rotated by 180 degrees with exchanged channels: y =
    fold(A' x), dA = x unfold(dy)', dx = A unfold(dy), each the gradient of the other convolution.
    """

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        assert isinstance(layer, Conv2d)
        k, stride, padding = layer.kernel_size, layer.stride, layer.padding
        x, y = buffers.x, buffers.y
        self.unrolls_output = y.shape[1] < x.shape[1] and stride == 1 and padding < k
        near, far = (y, x) if self.unrolls_output else (x, y)
        padding = k - 1 - padding if self.unrolls_output else padding
        places = far.shape[2:]
        self.block = block_size(x, near.shape[1] * k * k * places[0] * places[1])
        self.patches = Patches(x, near.shape[1:], places, self.block, k, stride, padding)
        wide = (far.shape[1], self.block, places[0], self.patches.pitch)
        self.product = self.scratch(x, wide)  # result of a matrix product, with places over the edge
        self.factor = self.scratch(x, wide)  # factor of a matrix product, zero beyond the edge
        self.factor[...] = 0
        self.a = self.scratch(x, (far.shape[1], near.shape[1], k, k))
        summed = x.dtype if buffers.dw is None else buffers.dw.dtype  # dtype of sums over the batch
        self.da = self.scratch(x, self.a.shape, summed)
        self.da_block = self.scratch(x, (far.shape[1], near.shape[1] * k * k), summed)
        self.workspace += self.patches.workspace
        # Wider copies of the factors, if that dtype is wider than x's and dy's.
        shapes = (self.factor.reshape(len(self.factor), -1).shape, self.patches.matrix(self.block).shape)
        self.wide = () if summed == x.dtype else tuple(self.scratch(x, shape, summed) for shape in shapes)

    def forward(self, n: int) -> None:
        t = self.buffers
        self.a[...] = self._exchanged(t.w) if self.unrolls_output else t.w
        bias = t.b[:, None, None]
        for some in blocks(n, self.block):
            x, y = t.x[some], t.y[some]
            if self.unrolls_output:
                self._spread(x, y)
                y += bias
            else:
                module_of(y).add(self._gather(self.patches.unfold(x), len(x)), bias, out=y)

    def backward(self, n: int) -> None:
        t = self.buffers
        xp = module_of(t.dy)
        xp.sum(t.dy[:n], axis=(0, 2, 3), dtype=t.db.dtype, out=t.db)
        da = self.da.reshape(self.da_block.shape)
        da[...] = 0
        for some in blocks(n, self.block):
            near, far = (t.dy[some], t.x[some]) if self.unrolls_output else (t.x[some], t.dy[some])
            matrix = self.patches.unfold(near)
            factor, terms = self._flat_factor(far), matrix
            if self.wide:
                factor, terms = (wide[:, : matrix.shape[1]] for wide in self.wide)
                factor[...], terms[...] = self._flat_factor(far), matrix
            da += xp.matmul(factor, terms.T, out=self.da_block)
            if t.dx is not None and self.unrolls_output:
                t.dx[some] = self._gather(matrix, len(near))
            elif t.dx is not None:
                self._spread(far, t.dx[some])
        t.dw[...] = self._exchanged(self.da) if self.unrolls_output else self.da

    @staticmethod
    def _exchanged(w: Array) -> Array:
        return w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]

    def _flat(self, wide: Array, n: int) -> Array:
        return wide.reshape(len(wide), -1)[:, : n * wide.shape[2] * wide.shape[3]]

    def _flat_factor(self, far: Array) -> Array:
        """Matrix (channels, n * rows * columns) of samples (n, channels, rows, columns)."""
        n = len(far)
        self.factor[:, :n, :, : far.shape[3]] = far.transpose(1, 0, 2, 3)
        return self._flat(self.factor, n)

    def _gather(self, matrix: Array, n: int) -> Array:
        """Product of weights and `matrix`: a view (n, channels, rows, columns) without columns over the edge."""
        columns = (self.buffers.x if self.unrolls_output else self.buffers.y).shape[3]
        module_of(matrix).matmul(self.a.reshape(self.da_block.shape), matrix, out=self._flat(self.product, n))
        return self.product[:, :n, :, :columns].transpose(1, 0, 2, 3)

    def _spread(self, far: Array, out: Array) -> None:
        """Fill out = fold(A' far), for images `far` (n, channels, rows, columns)."""
        a = self.a.reshape(self.da_block.shape)
        module_of(out).matmul(a.T, self._flat_factor(far), out=self.patches.matrix(len(far)))
        self.patches.fold(out)
