"""Segment of a layer in which a user's launches write some of the arrays in place of the package's launches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ...device import Array, Device
from ...errors import KernelError
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.segments import Operands, Segment
from .kernel_file import KernelFile, bind
from .roles import Number, values


class OwnSegment(Segment):
    """Segment `ours` of the package without the launches that the user's launches replace.

    files : the user's .cu files. segments : the user's own segments, with the arrays that each writes.
    """

    ours: ClassVar[type[Segment]]
    files: ClassVar[tuple[KernelFile, ...]] = ()
    segments: ClassVar[tuple[tuple[type[Segment], tuple[str, ...]], ...]] = ()

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        self.base = self.ours(device, subgraph, operands, block_size)
        self.theirs = [(kind(device, subgraph, operands, block_size), names) for kind, names in self.segments]
        self.workspace += self.base.workspace + sum(segment.workspace for segment, _ in self.theirs)
        self.arrays = arrays_of(operands, device)
        own = {name for file in self.files for launch in file.launches for name in launch.writes}
        self.replaced = own | {name for _, names in self.theirs for name in names}
        if operands.buffers.dx is None and any(
            "dx" in launch.writes for each in self.files for launch in each.launches
        ):
            # a kernel that writes further arrays needs a place for it
            self.arrays["dx"] = self.scratch(operands.buffers.x.shape) if operands.buffers.dy is not None else None

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return cls.ours.takes(subgraph)

    def own(self, n: int, outputs: tuple[str, ...]) -> Launches:
        """User's launches that write some of these arrays."""
        found: Launches = []
        (layer,) = self.layers
        known: dict[str, Number] = values(layer, self.buffers, n)
        for file in self.files:
            for launch in file.launches:
                wanted = [name for name in launch.writes if name in outputs]
                if not wanted or (wanted == ["dx"] and self.buffers.dx is None):
                    continue
                if all(self.arrays[name] is None for name in wanted):  # a bias that the layer does not have
                    continue
                arrays = {name: rows(name, array, n) for name, array in self.arrays.items()}
                found.append(bind(self.device, file, launch, arrays, known))
        return found

    def forward(self, part: Slice) -> Launches:
        found = self.base.forward(part)
        theirs = self.own(part.n, ("y",))
        for segment, names in self.theirs:
            if "y" in names:
                theirs += segment.forward(part)
        if not theirs:
            return found
        # arrays that the package's backward pass reads, such as argmax indices, must be written
        later = self._kept(self.base.backward(part)) if self.buffers.dy is not None else []
        mine = [self.buffers.x, self.buffers.y]
        wanted = [span for call in later for span in _reads(call) if not any(_meets(span, _span(a)) for a in mine)]
        return [*_needed(found, wanted), *theirs]

    def backward(self, part: Slice) -> Launches:
        found = self._kept(self.base.backward(part)) + self.own(part.n, ("dx", "dw", "db"))
        t = self.buffers
        for segment, names in self.theirs:
            spans = [_span(getattr(t, name)) for name in names if name != "y" and getattr(t, name) is not None]
            found += _needed(segment.backward(part), spans)
        return found

    def _kept(self, calls: Launches) -> Launches:
        """Backward launches of the package that are needed for the arrays that no launch of the user writes."""
        if not self.replaced & {"dx", "dw", "db"}:
            return calls
        t = self.buffers
        left = [getattr(t, name) for name in ("dx", "dw", "db") if name not in self.replaced]
        return _needed(calls, [_span(array) for array in left if array is not None])


def arrays_of(operands: Operands, device: Device) -> dict[str, Array | None]:
    """Arrays of a segment by canonical name: x, w, b, y, dy, dx, dw, db."""
    t = operands.buffers
    return {name: getattr(t, name) for name in ("x", "w", "b", "y", "dy", "dx", "dw", "db")}


def rows(name: str, array: Array | None, n: int) -> Array | None:
    """First n samples of an array of samples; the whole array for parameters and their gradients."""
    return array if array is None or name in ("w", "b", "dw", "db") else array[:n]


def _span(array: Array) -> range:
    return range(array.address, array.address + array.nbytes)


def _meets(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _reads(call: object) -> tuple[range, ...]:
    touches = getattr(call, "touches", None)
    return touches.reads if touches is not None else ()


def _needed(calls: Launches, wanted: Iterable[range]) -> Launches:
    """Calls that contribute to the contents of these addresses, in order."""
    left, found = list(wanted), []
    for call in reversed(calls):
        if call.touches is None:
            raise KernelError(f"it is not known what {call.name} writes: replace the whole pass")
        if any(_meets(mine, span) for mine in call.touches.writes for span in left):
            found.append(call)
            left += [*call.touches.reads, *call.touches.writes]
    return found[::-1]
