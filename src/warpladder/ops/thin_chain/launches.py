"""Launches of a thin chain: forward with the loss, and gradients, by kernels for few samples or for many."""

from ..engine.chain import Slice
from ..engine.kernels import Launches
from ..engine.segments import Segment
from .arrays import ChainArrays
from .few import Few
from .many import Many

#: Most samples with a block for each: they are too few to fill the device otherwise.
FEW = 1024


class ThinSegment(Segment):
    """Segment of a thin chain. Latency bounds up to FEW samples, arithmetic bounds more: each has its kernels."""

    cost = 2

    def bind(self, arrays: ChainArrays, capacity: int) -> None:
        """Create the launchers of these arrays, for few and for many samples."""
        self.few = Few(self, arrays, min(capacity, FEW))
        self.many = Many(self, arrays, capacity) if capacity > FEW else None

    def forward(self, part: Slice) -> Launches:
        return self._of(part.n).forward(part)

    def backward(self, part: Slice) -> Launches:
        return self._of(part.n).backward(part)

    def _of(self, n: int) -> Few | Many:
        return self.few if n <= FEW or self.many is None else self.many
