"""A view: where a block of activations lies, as seven whole numbers.

Activations are stored channels-last, float32. Element (sample, row, column, channel) of a view
lies at OFFSET + sample * SAMPLE + row * ROW + column * PIXEL + channel. Channels are padded with
zeros to a multiple of the panel width, so that no kernel needs a ragged edge. Strides may leave
room between pixels: zero borders that stand for a convolution's padding, every second pixel of
an enlarged image, or gaps that keep a power-of-two pitch from landing in one cache set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

OFFSET, SAMPLE, ROW, PIXEL, HEIGHT, WIDTH_, CHANNELS = range(7)
FIELDS = 7


@dataclass(frozen=True)
class View:
    """Offsets and strides in elements; `channels` includes the padding."""

    offset: int
    sample: int
    row: int
    pixel: int
    height: int
    width: int
    channels: int

    def ints(self) -> list[int]:
        return [self.offset, self.sample, self.row, self.pixel, self.height, self.width, self.channels]

    def moved(self, rows: int, columns: int | None = None) -> View:
        """A view that begins so many rows and columns further on, as many columns as rows if not given; with negative
        numbers it begins in the border.
        """
        columns = rows if columns is None else columns
        return replace(self, offset=self.offset + rows * self.row + columns * self.pixel)

    def every_second(self, y: int, x: int) -> View:
        """The pixels of one parity: rows y, y + 2, ... and columns x, x + 2, ..."""
        return replace(
            self,
            offset=self.offset + y * self.row + x * self.pixel,
            row=2 * self.row,
            pixel=2 * self.pixel,
            height=self.height // 2,
            width=self.width // 2,
        )
