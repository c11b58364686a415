"""Phases of a strided convolution's input gradient: each is a convolution of stride 1 of its own.

dx[i] = sum over k of w[k] dy[(i + padding - k) / stride], where the division leaves no rest. So inputs i with the same
phase r = (i + padding) % stride see the same taps k = r, r + stride, ...: with a kernel of 3 and stride 2, one tap or
two. All phases together multiply each tap once for each output, as the forward pass does::

    kernel 3, stride 2, padding 1    phase 0   dx[1] dx[3] ...   taps 0, 2
                                     phase 1   dx[0] dx[2] ...   tap 1
"""

from __future__ import annotations

from typing import NamedTuple

from ....nets import Conv2d


class Phase(NamedTuple):
    """One phase of rows or columns; element `r` of `phases` has the inputs i with (i + padding) % stride = r.

    first, pixels : index of the phase's first input, and number of its inputs, `stride` apart.
    taps : kernel rows or columns that reach them; 0 where a kernel is smaller than its stride, whose gradient is 0.
    start : index in dy of the first factor of the first input; below 0 in the border of zeros.
    """

    first: int
    pixels: int
    taps: int
    start: int

    @property
    def end(self) -> int:
        """Index in dy after the last factor of the last input."""
        return self.start + self.taps + self.pixels - 1


def phases(layer: Conv2d, length: int) -> list[Phase]:
    """Phases, `stride` of them, of the rows or columns of an input of this length, in order."""
    size, stride, padding = layer.kernel_size, layer.stride, layer.padding
    found = []
    for r in range(stride):
        shift = -((r - padding) // stride)  # of dy: the least q with stride * q + r - padding at least 0
        first, taps = stride * shift + r - padding, max(0, -(-(size - r) // stride))
        found.append(Phase(first, max(0, -(-(length - first) // stride)), taps, shift - (taps - 1)))
    return found
