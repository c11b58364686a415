"""A way to compute a convolution on tensor cores: what it is asked, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....device import Array, Device
from ...engine.kernels import Launches
from ...engine.segments import Segment
from ..gradients import Gradients
from ..products import Image
from .shifted.shifted import GradientBelow
from .warpgroups.warpgroups import PackedImages

#: A precision whose factors some ways multiply as another one's, which has as many bits.
HALVES = {"tf32": "fp16"}


@dataclass(frozen=True)
class Asked:
    """A convolution, with what stands before and behind it.

    small, written : what it reads, before an enlargement, and what it writes, before a pool; (channels, rows, columns).
    k, stride, padding : of its window.
    fold : by how much its image is enlarged before the window; 1 where it is not.
    rectify, pool : whether a ReLU follows, and a 2 x 2 pool behind that.
    capacity : images of a whole batch.
    trains, both : whether there is a backward pass, and whether that has an input gradient.
    begins : whether it is a net's first layer, with no dx and no enlargement.
    slight : whether it is a net's first layer, and its products few beside the net's (ops/engine/tensor_limits.py).
    """

    device: Device
    precision: str
    small: Image
    written: Image
    k: int
    stride: int
    padding: int
    fold: int
    rectify: bool
    pool: bool
    capacity: int
    trains: bool
    both: bool
    begins: bool
    slight: bool

    @property
    def window(self) -> tuple[int, int, int]:
        """Kernel size, stride and padding."""
        return self.k, self.stride, self.padding

    @property
    def folded(self) -> bool:
        """Whether an enlargement stands in front."""
        return self.fold > 1

    @property
    def transposed(self) -> tuple[int, int, int]:
        """The window of the small image's own convolution: behind an enlargement a transposed one, which reaches over
        every pixel that an enlarged one touches.
        """
        return (self.k + self.fold - 1, self.fold, self.k - 1 - self.padding) if self.folded else self.window

    @property
    def after(self) -> str:
        """What follows the convolution in its kernel: a key of `products.AFTER`."""
        return "POOL" if self.pool else "RECTIFY" if self.rectify else "PLAIN"


class Way(ABC):
    """One way to compute a convolution: its y, dx, dw and db as launches.

    Parameters
    ----------
    owner : Segment
        The segment whose arrays are read and written, and whose scratch memory is taken. A way does not refer to it
        afterwards.
    asked : Asked
        The convolution, which `takes` has agreed to.
    before : Way or None
        The way of the convolution in front, whose y is x and whose dy is dx, if there is one. The two may agree on
        other forms of these than arrays of floats.

    Attributes
    ----------
    factors : str or None
        The precision in which factors are multiplied, where that is another than the net's; as `Segment.factors`.
    winner : Array or None
        uint8, which pixel of each window a pool has taken, for its gradient; None without a pool, or without a backward
        pass.
    rectified : Array or None
        y, where a ReLU has written it and dy does not know of that yet.
    below : Array or None
        x, where dx shall be 0 where that is not above 0.
    packed : Array or None
        uint16, a second copy of y, packed for the layer behind; None where that layer packs its image itself.
    apart : bool
        Whether the optimizer's step is better a launch of its own: the one that fills dw then need not wait until dx
        has read the weights.
    """

    packs: ClassVar[bool] = False
    #: Whether factors of tf32, 11 bits, are multiplied as halves with a scale, which have as many.
    halves: ClassVar[bool] = False

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        self.asked, self.buffers = asked, owner.buffers
        self.factors = HALVES.get(asked.precision) if self.halves else None
        self.packed: Array | None = None
        self.apart = False
        pooled = asked.pool and asked.trains
        self.winner = owner.scratch((asked.capacity, *owner.buffers.y.shape[1:]), np.uint8) if pooled else None
        self.rectified = owner.buffers.y if asked.rectify and not owner.operands.dy_is_masked else None
        self.below = owner.buffers.x if owner.operands.masks_dx else None

    @classmethod
    @abstractmethod
    def takes(cls, asked: Asked) -> bool:
        """Whether the way computes such a convolution; it is asked only where none before it in `tensor_ways.WAYS`
        does.
        """

    def prepare(self) -> Launches:
        """What depends on the weights alone."""
        return []

    @abstractmethod
    def forward(self, n: int) -> Launches:
        """y[:n]."""

    @abstractmethod
    def backward(self, n: int, to: Gradients) -> Launches:
        """dw, db and, where it is wanted, dx[:n]."""

    def feed(self, images: PackedImages) -> bool:
        """Whether y is packed for the layer behind from now on; what is kept of that one is an array."""
        if images.scaled or not self.packs:
            return False
        self.packed = images.halves.high
        return True

    def fed_back(self) -> GradientBelow | None:
        """Where the layer behind leaves the gradient of y from now on, packed and summed up for the bias; None where it
        shall fill dy.
        """
        return None
