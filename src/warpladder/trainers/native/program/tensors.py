"""Tensors of activations and their gradients: strides, and a bump allocator for one buffer.

Activations are stored channels-last in float32. Channels are padded with zeros to a multiple of the panel width, so
that no kernel needs a ragged edge. Strides may leave gaps between pixels: zero borders that are a convolution's
padding, every second pixel of an upsampled image, or a gap by which rows at a power-of-two pitch do not share a cache
set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ....nets import Shape
from .layout import GAPS_FROM, padded


class ActivationView(NamedTuple):
    """Strides of a block of activations in its buffer. All numbers count elements.

    Element (sample, row, column, channel) is at
    offset + sample * view.sample + row * view.row + column * view.pixel + channel.
    """

    offset: int
    sample: int  # stride from sample to sample
    row: int  # stride from row to row
    pixel: int  # stride from pixel to pixel of a row
    height: int  # rows
    width: int  # pixels of a row
    channels: int  # with padding

    def moved(self, rows: int, columns: int | None = None) -> ActivationView:
        """View that begins `rows` rows and `columns` columns (default: `rows`) later; if negative, in the border."""
        columns = rows if columns is None else columns
        return self._replace(offset=self.offset + rows * self.row + columns * self.pixel)

    def every(self, step: int, y: int, x: int, height: int, width: int) -> ActivationView:
        """View of every `step`th pixel: `height` rows y, y + step, ... and `width` columns x, x + step, ..."""
        start = self.moved(y, x)
        return start._replace(row=step * self.row, pixel=step * self.pixel, height=height, width=width)

    def every_second(self, y: int, x: int) -> ActivationView:
        """View of the pixels of one parity: rows y, y + 2, ... and columns x, x + 2, ..."""
        return self.every(2, y, x, self.height // 2, self.width // 2)


@dataclass(frozen=True)
class Tensor:
    """Block of samples of a layer's activations, or of their gradients.

    shape : (channels, height, width) or (features,). view : strides of a sample; a flat sample is an image of one
    pixel.
    pitch : elements from pixel to pixel. copy_stride : elements between threads' private copies; 0 if they share one.
    """

    shape: Shape
    view: ActivationView
    pitch: int
    copy_stride: int = 0

    @property
    def flat(self) -> bool:
        return len(self.shape) == 1

    def flattened(self) -> Tensor:
        """Tensor of rows of features, in the stored order, of an image without gaps or borders."""
        view = self.view
        features = view.height * view.width * view.channels
        row = ActivationView(view.offset, view.sample, view.sample, view.sample, 1, 1, features)
        return Tensor((features,), row, view.sample)

    def samples_as_pixels(self) -> ActivationView:
        """View of a flat tensor as an image of one row, whose width is the number of samples at run time."""
        return self.view._replace(sample=0, pixel=self.view.sample, width=0)


class Arena:
    """Bump allocator of one float32 buffer; `size` is the number of allocated floats."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.size = 0

    def flat(self, features: int, copies: int = 1) -> Tensor:
        """Tensor (samples, features) float32 in `copies` copies, with whole panels and odd cache lines a row."""
        channels = padded(features)
        # rows a power of two apart fall into the same few sets of the first-level cache
        pitch = channels + 16 if channels >= 128 and channels // 16 % 2 == 0 else channels
        offsets = [self._take(self.samples * pitch) for _ in range(copies)]
        view = ActivationView(offsets[0], pitch, pitch, pitch, 1, 1, channels)
        return Tensor((features,), view, pitch, offsets[1] - offsets[0] if copies > 1 else 0)

    def image(
        self, shape: Shape, channels: int, before: int = 0, after: int = 0, spare: Tensor | None = None
    ) -> Tensor:
        """Tensor (samples, height, width, channels) inside a border of zeros.

        channels : with padding. before, after : zeros above and left, below and right.
        spare : free tensor whose memory is reused if it is large enough. Neither may have a border: no operation writes
        its zeros.
        """
        _, height, width = shape
        pitch = channels + 16 if channels >= GAPS_FROM else channels
        row = (before + width + after) * pitch
        sample = (before + height + after) * row
        sample += 16 if sample // 16 % 2 == 0 else 0  # an odd number of cache lines, as for rows of flat tensors
        offset = spare.view.offset if spare and spare.view.sample >= sample else self._take(self.samples * sample)
        inside = offset + before * (row + pitch)
        return Tensor(shape, ActivationView(inside, sample, row, pitch, height, width, channels), pitch)

    def _take(self, floats: int) -> int:
        offset = self.size
        self.size += -(-floats // 16) * 16 + 64  # a tile may read a little past the end
        return offset
