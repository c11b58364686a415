"""Where activations and their gradients lie: a bump allocator that hands out views."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....nets import Shape
from .layout import GAPS_FROM, padded
from .views import View


@dataclass(frozen=True)
class Tensor:
    """One block of activations (or of gradients) of a layer boundary.

    shape : (channels, height, width) or (features,), as the net says. view : sample by sample; a flat
    sample is an image of one pixel. pitch : elements from pixel to pixel. apart : elements between the copies of
    threads that have one each; 0 for one tensor.
    """

    shape: Shape
    view: View
    pitch: int
    apart: int = 0

    @property
    def flat(self) -> bool:
        return len(self.shape) == 1

    def flattened(self) -> Tensor:
        """An image without gaps or borders as rows of features, in the order in which they lie."""
        view = self.view
        features = view.height * view.width * view.channels
        return Tensor(
            (features,), View(view.offset, view.sample, view.sample, view.sample, 1, 1, features), view.sample
        )

    def samples_as_pixels(self) -> View:
        """A flat tensor as one image of one row; its width is the number of samples, set when it runs."""
        return replace(self.view, sample=0, pixel=self.view.sample, width=0)


class Arena:
    """Hands out parts of one float32 buffer; `size` is what they need together."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.size = 0

    def flat(self, features: int, copies: int = 1) -> Tensor:
        """(samples, features), rows padded to whole panels and to an odd number of cache lines; once, or a copy for
        each thread.
        """
        channels = padded(features)
        # rows a power of two apart fall into the same few sets of the first-level cache
        pitch = channels + 16 if channels >= 128 and channels // 16 % 2 == 0 else channels
        offset = self._take(self.samples * pitch)
        apart = [self._take(self.samples * pitch) for _ in range(copies - 1)]
        return Tensor(
            (features,), View(offset, pitch, pitch, pitch, 1, 1, channels), pitch, apart[0] - offset if apart else 0
        )

    def image(
        self, shape: Shape, channels: int, before: int = 0, after: int = 0, apart: int = 1, spare: Tensor | None = None
    ) -> Tensor:
        """(samples, height, width, channels) inside a border of zeros.

        channels : with padding. before, after : border above and left, below and right. apart : 2 leaves a zero pixel
        between two pixels, as a strided convolution's input gradient wants it. spare : as of `Boundaries.tensor`;
        neither may have a border, which nobody else writes.
        """
        _, height, width = shape
        pitch = channels + 16 if channels >= GAPS_FROM else channels
        row = (before + (width - 1) * apart + 1 + after) * pitch
        sample = (before + (height - 1) * apart + 1 + after) * row
        sample += 16 if sample // 16 % 2 == 0 else 0  # as for rows of flat tensors, which this may be one of
        offset = spare.view.offset if spare and spare.view.sample >= sample else self._take(self.samples * sample)
        inside = offset + before * (row + pitch)
        return Tensor(shape, View(inside, sample, row * apart, pitch * apart, height, width, channels), pitch)

    def _take(self, floats: int) -> int:
        offset = self.size
        self.size += -(-floats // 16) * 16 + 64  # a tile may read a little past the end
        return offset
