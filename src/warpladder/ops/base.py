"""`Op`: one implementation of one layer, bound once to shapes and buffers.

After binding it allocates nothing, so that it can be captured in a graph. The arrays may be
NumPy's or CuPy's; the first axis of activations is the batch's capacity, and every call says
how many of its rows are in use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ..nets import Layer

Array = Any  # numpy.ndarray or cupy.ndarray


@dataclass(frozen=True)
class Buffers:
    """What one op reads and writes.

    x, y : (capacity, *in_shape) and (capacity, *out_shape), input and output.
    dx, dy : gradients of the loss by x and y; dx is None where nobody needs it. Where the op trains nothing either, both are None.
    w, b, dw, db : parameters and their gradients, views into flat buffers; None without parameters.
    """

    x: Array
    y: Array
    dx: Array | None = None
    dy: Array | None = None
    w: Array | None = None
    b: Array | None = None
    dw: Array | None = None
    db: Array | None = None


class Op(ABC):
    """One layer's arithmetic on bound buffers."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        self.layer = layer
        self.buffers = buffers

    @abstractmethod
    def forward(self, n: int) -> None:
        """Fill y[:n] from x[:n]."""

    @abstractmethod
    def backward(self, n: int) -> None:
        """Fill dw and db (overwriting) and, where it is bound, dx[:n] from dy[:n]; follows a forward of the same n."""
