"""Patches: neighbourhoods of a block of images as the columns of a matrix (im2col), and back (col2im)."""

from ..engine.base import Array, Bound, chunk_bytes, module_of


class Patches(Bound):
    """Matrix of the k x k neighbourhoods of up to `block` images (channels, height, width), zero padded, at a stride.

    The matrix is (channels k k, block rows pitch): a row for each channel and kernel element, a column for each
    position of the kernel. At stride 1 the positions run over the right edge (pitch is the padded width), so that each
    row of the matrix is a plain copy of consecutive numbers. Columns over the edge are meaningless: omit them, or
    multiply them by zeros.

    like : an array of NumPy or CuPy, whose module is used.
    places : rows and columns of kernel positions, without those over the edge.
    """

    def __init__(
        self, like: Array, image: tuple[int, ...], places: tuple[int, ...], block: int, kernel_size: int, stride: int,
        padding: int
    ) -> None:  # fmt: skip
        channels, self.height, self.width = image
        rows, columns = places
        self.padding = padding
        wide = self.width + 2 * padding
        self.pitch = wide if stride == 1 else columns
        # One row more than the images: the last neighbourhoods run over the edge.
        self.images = self.scratch(like, (channels, block, self.height + 2 * padding + 1, wide))
        self.sums = self.scratch(like, self.images.shape)
        self.images[...] = 0
        self.buffer = self.scratch(like, (channels, kernel_size, kernel_size, block, rows, self.pitch))
        self.seen = self._view(self.images, kernel_size, stride)
        self.met = self._view(self.sums, kernel_size, stride)

    def _view(self, images: Array, k: int, stride: int) -> Array:
        """View (channels, k, k, block, rows, pitch): the pixel under kernel element (i, j) at each position."""
        channel, sample, row, pixel = images.strides
        strides = (channel, row, pixel, sample, stride * row, stride * pixel)
        return module_of(images).lib.stride_tricks.as_strided(images, self.buffer.shape, strides)

    def matrix(self, n: int) -> Array:
        """Columns of the first n images: (channels k k, n rows pitch)."""
        channels, k, _, block, rows, pitch = self.buffer.shape
        return self.buffer.reshape(channels * k * k, block * rows * pitch)[:, : n * rows * pitch]

    def unfold(self, x: Array) -> Array:
        """Fill the matrix from images (n, channels, height, width) and return it."""
        n, p = len(x), self.padding
        self.images[:, :n, p : p + self.height, p : p + self.width] = x.transpose(1, 0, 2, 3)
        self.buffer[:, :, :, :n] = self.seen[:, :, :, :n]
        return self.matrix(n)

    def fold(self, out: Array) -> None:
        """Fill out (n, channels, height, width): add every number of the matrix to its pixel (col2im)."""
        n, p, k = len(out), self.padding, self.buffer.shape[1]
        self.sums[:, :n] = 0
        for i in range(k):
            for j in range(k):
                target = self.met[:, i, j, :n]
                target += self.buffer[:, i, j, :n]
        out[...] = self.sums[:, :n, p : p + self.height, p : p + self.width].transpose(1, 0, 2, 3)


def blocks(n: int, block: int) -> list[slice]:
    """Slices of at most `block` samples that cover 0 to n - 1."""
    return [slice(first, min(first + block, n)) for first in range(0, n, block)]


def block_size(x: Array, numbers: int) -> int:
    """Number of samples whose patches, `numbers` each, stay in the cache between copy and product."""
    return max(1, min(len(x), chunk_bytes(x) // (numbers * x.dtype.itemsize)))
