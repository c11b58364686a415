"""Nearest-neighbour upsampling as a broadcast copy, its gradient as a sum of s * s shifted views."""

from ..engine.base import Op


class ArrayUpsample2d(Op):
    """Upsampling: y (n, c, s h, s w) repeats every pixel of x (n, c, h, w) s times in both directions."""

    def forward(self, n: int) -> None:
        t = self.buffers
        s: int = self.layer.scale_factor
        c, h, w = t.x.shape[1:]
        t.y[:n].reshape(n, c, h, s, w, s)[...] = t.x[:n, :, :, None, :, None]

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is None:
            return
        s: int = self.layer.scale_factor
        dx, dy = t.dx[:n], t.dy[:n]
        dx[...] = dy[:, :, ::s, ::s]
        for offset in range(1, s * s):
            dx += dy[:, :, offset // s :: s, offset % s :: s]
