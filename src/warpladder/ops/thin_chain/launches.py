"""Launches of a thin chain: forward with the loss, and gradients, by kernels for few samples or for many."""

from ..engine.chain import Slice
from ..engine.kernels import Launches, OnDevice
from ..engine.segments import Segment
from .arrays import ChainArrays
from .few import Few
from .many import Many

#: Most samples with a block for each: they are too few to fill the device otherwise.
FEW = 1024


class ChainLaunches:
    """Up to FEW samples are bound by waiting, more by arithmetic. Arguments as those of `ChainArrays`."""

    def __init__(self, owner: OnDevice, arrays: ChainArrays, capacity: int) -> None:
        self.few = Few(owner, arrays, min(capacity, FEW))
        self.many = Many(owner, arrays, capacity) if capacity > FEW else None

    def forward(self, part: Slice) -> Launches:
        return self._of(part.n).forward(part)

    def backward(self, part: Slice) -> Launches:
        return self._of(part.n).backward(part)

    def _of(self, n: int) -> Few | Many:
        return self.few if n <= FEW or self.many is None else self.many


class ThinSegment(Segment):
    """A segment whose launches are those of a thin chain."""

    cost = 2
    kernels: ChainLaunches

    def forward(self, part: Slice) -> Launches:
        return self.kernels.forward(part)

    def backward(self, part: Slice) -> Launches:
        return self.kernels.backward(part)
