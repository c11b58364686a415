"""Segments: implementations of consecutive nodes of a chain as kernels; and the table of a rung's segments.

A segment is bound once to a device and its arrays. For a slice of samples it returns launches for the forward and the
backward pass, and executes none: a step is a list of launches that can be executed, timed one by one, or captured in a
graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...device import Array, Call, Device
from ...errors import RungError
from ...nets import Net
from .base import Buffers
from .chain import Slice, Subgraph
from .kernels import KernelAccumulate, KernelUpdate, Launches, Log, MaskKey, OnDevice
from .layer_files import form, others

if TYPE_CHECKING:
    from ..cost.plans import Planner
    from ..cost.tiles import TilePlan


@dataclass(frozen=True)
class StoredSamples:
    """Data set on the device, as a gathering segment reads it.

    stored : (samples, *in_shape) uint8 or float32, as in the data set.
    scale : float32 factor of its numbers.
    labels : (samples,) int32, or None.
    order : (ORDER_WORDS,) uint32, as `order_words` makes it; None for the order of storage.
    step : (1,) int32, as `Log.step`.
    targets : (samples, outputs) float32, the data set's targets, for a segment that computes the loss too; or None.
    """

    stored: Array
    scale: np.float32
    labels: Array | None
    order: Array | None
    step: Array
    targets: Array | None = None


@dataclass(frozen=True)
class Operands:
    """Arrays that a segment reads and writes.

    buffers : x at the input of its first layer, y at the output of its last one, dx and dy their gradients; w, b, dw
    and db of its first layer with parameters. A segment that gathers fills x; if it is the whole chain, it has no x, y,
    dx and dy. A segment with the loss has no y and dy; the loss alone has the net's output and its gradient as x and
    dx. A segment without dy and without a loss only predicts. A ReLU may have one array as x and y, and one as dx and
    dy.
    params, grads : weight and bias of each layer that has them, in order, and their gradients.
    samples : only for a segment that gathers.
    target : (capacity,) int32 labels, (capacity, outputs) float32 targets, or (capacity, *in_shape) float32 images to
    reproduce; a segment that gathers fills the labels in.
    log : only for a segment with the loss.
    shares : (samples,) float32, weights of samples in the mean of their batch, by position in the epoch's order; None
    for means. Only for a segment with a `GeneralLoss`.
    mask_key : key of random masks; None in a chain that only predicts, and in a net without random masks.
    update : the optimizer's step on exactly the segment's parameters, if it `updates_in_place`.
    numbers : the optimizer's settings on the device, a row for each step or one for all, as in
    `KernelUpdate.launches`.
    masks_dx : True if x is the output of a ReLU whose backward pass the segment computes: dx is 0 where x is 0. Only
    for a segment that `fuses_relu_backward`.
    dy_is_masked : True if y is the output of a ReLU, and the next segment has set dy to 0 where y is 0.
    previous : previous segment in the chain, if it computes layers; its y is this segment's x, its dy this segment's
    dx. When a segment is bound, it may request packed copies of these arrays from the previous one. Two segments
    exchange arrays and never refer to each other, which would hold their memory until the next garbage collection.
    """

    buffers: Buffers
    params: tuple[Array, ...] = ()
    grads: tuple[Array, ...] = ()
    samples: StoredSamples | None = None
    target: Array | None = None
    log: Log | None = None
    mask_key: MaskKey | None = None
    shares: Array | None = None
    update: KernelUpdate | None = None
    numbers: Array | None = None
    masks_dx: bool = False
    dy_is_masked: bool = False
    previous: Segment | None = None


class Segment(OnDevice, ABC):
    """Consecutive nodes of a chain as kernels, in few launches.

    A segment implements `forward` and `backward`, and `prepare` if it packs its parameters first. Four hooks let
    neighbours save launches, and each has a default that saves none:

    - `masks_dy`: the segment ends in a ReLU whose mask it applies at no cost, so that the next one does not.
    - `fuses_relu_backward`: the segment computes the backward pass of the ReLU whose output is its input.
    - `updates_in_place`: the segment makes the optimizer's step on its own parameters.
    - `Operands.previous`: the segment and the previous one exchange packed arrays.

    cost : rank of a segment, roughly its launches in a step. A chain is cut so that the sum is least.
    updates_all_biases : True if a segment that `updates_in_place` wants a bias in each of its layers.
    has_few_parameters : True if their update is not worth a launch less, so that one next to them may make it.
    reads_order : True if its launches read the epoch's order.
    setup : launches executed once when the segment is made, such as packing the samples.
    products : planners whose tiles a tuner may choose, by result: "y", "dx" or "dw".
    factors : precision of the factors on tensor cores; None if it is the chain's.
    update : the optimizer's step that the segment makes: `Operands.update`, or None if a separate launch is faster.
    """

    cost: ClassVar[float] = 3
    fuses_relu_backward: ClassVar[bool] = False
    updates_all_biases: ClassVar[bool] = True
    masks_dy: ClassVar[bool] = False
    has_few_parameters: ClassVar[bool] = False
    reads_order = True
    setup: tuple[Call, ...] = ()
    factors: str | None = None

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, block_size)
        self.subgraph, self.operands = subgraph, operands
        self.layers, self.buffers = subgraph.layers, operands.buffers
        self.update = operands.update
        self.products: dict[str, Planner[TilePlan]] = {}

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        """True if the segment can compute these nodes, whose types equal a table entry of the segment."""
        return True

    @classmethod
    def updates_in_place(cls, subgraph: Subgraph) -> bool:
        """True if `backward` can make the config's step on the segment's parameters, for a batch in one slice."""
        return False

    def prepare(self, part: Slice, repeated: bool = False) -> Launches:
        """Launches that depend on the parameters alone, such as packing weights, before the slice's forward pass.

        repeated : True if the previous step had an equal slice. A segment whose `backward` has already prepared the
        updated parameters then returns no launches.
        """
        return []

    @abstractmethod
    def forward(self, part: Slice) -> Launches:
        """Launches that fill y[:n] from x[:n], or x[:n] and the labels from the samples; after `prepare` of the same
        slice.

        The loss fills the net's dx[:n] and the log's entry of the running step. A batch larger than the capacity comes
        in slices: the first sets the entry, the others add to it, and the last adds one to log.step. Sums have a fixed
        order. Without `part.has_loss` the entry stays as it is. A segment with more nodes than the loss may leave some
        of this to `backward`.
        """

    def backward(self, part: Slice) -> Launches:
        """Launches that fill the gradients of the parameters, and dx[:n] unless None, from dy[:n]; after `forward`."""
        return []


class GatherSegment(Segment):
    """Gathering alone: samples from position step * batch + offset of the order; without order, rows 0 to n - 1."""

    cost = 1

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        assert operands.samples is not None
        self.samples, self.x, self.target = operands.samples, operands.buffers.x, operands.target


class LossSegment(Segment):
    """Loss alone, computed completely in the forward pass."""

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        assert operands.log is not None and operands.target is not None
        self.x, self.dx, self.target, self.log = operands.buffers.x, operands.buffers.dx, operands.target, operands.log

    def entry(self, part: Slice) -> tuple[Array | int | None, ...]:
        """Arguments of the kernel that finishes the loss: the log's step, loss and correct, is_first, is_last."""
        return *self.log.entry(part.has_loss), int(part.is_first), int(part.is_last)


@dataclass(frozen=True)
class KernelTable:
    """Table of the segments of a rung.

    segments : by the types of consecutive nodes.
    fronts, chains : segments of the first nodes and of the last ones, whatever their number, for those that the one of
    `segments` does not take.
    update : the optimizer's step on all parameters that no segment updates.
    accumulate : sum of gradients, for batches in slices.
    alternatives : other segments for layers with parameters; a tuner compares their times with those of `segments`.
    unit : unit of the GPU that computes the products, a name of `machine.peaks`; None for the default one.
    interleaves_steps : True if launches in a graph of several steps may begin before the previous step has ended.
    below : table of the rung below, whose segments compute the layers that are faster with them; None for no choice.
    """

    segments: Mapping[tuple[type, ...], type[Segment]]
    update: type[KernelUpdate]
    accumulate: type[KernelAccumulate]
    alternatives: tuple[type[Segment], ...] = ()
    unit: str | None = None
    interleaves_steps: bool = False
    below: KernelTable | None = None
    chains: tuple[type[Segment], ...] = ()
    fronts: tuple[type[Segment], ...] = ()

    def with_files(self, net: Net) -> KernelTable:
        """Table with segments for the net's layers that no table lists, from `cuda.py` next to their classes."""
        own: dict[tuple[type, ...], type[Segment]] = {
            (kind,): form(kind, "cuda.py").OP for kind in others(net) if (kind,) not in self.segments
        }
        below = None if self.below is None else self.below.with_files(net)
        return replace(self, segments={**self.segments, **own}, below=below) if own or below is not self.below else self

    def of(self, part: Subgraph, below: frozenset[int]) -> KernelTable | None:
        """Table whose segments compute these nodes: this one, or the rung below's if it has all of their layers; None
        if it has some of them.

        below : numbers of the layers that the rung below's segments compute.
        """
        on_below = {number in below for number in part.numbers if number is not None}
        return None if len(on_below) > 1 else self.below if True in on_below else self

    def takes(self, kinds: tuple[type, ...], part: Subgraph) -> type[Segment] | None:
        """Segment that computes nodes of these types, or None."""
        fronts, chains = self.fronts if part.gathers else (), self.chains if part.turns else ()
        listed = self.segments.get(kinds), *fronts, *chains
        return next((kind for kind in listed if kind is not None and kind.takes(part)), None)

    def cut(self, chain: Subgraph) -> Cut | None:
        """Cheapest division of a chain into segments, in order, or None; of equals, the one with longer first segments.

        A segment never contains a Flatten that changes a sample's shape.
        """
        return self._cuts(chain)[len(chain.nodes)]

    def cut_net(self, chain: Subgraph, net: Net, below: frozenset[int] = frozenset()) -> Cut:
        """Cheapest division of a net's chain. Raises `RungError` with the first node that no segment supports.

        below : numbers of the layers that the rung below's segments compute.
        """
        cuts = self._cuts(chain, below)
        if (found := cuts[len(chain.nodes)]) is not None:
            return found
        reached = max(place for place, cut in enumerate(cuts) if cut is not None)
        number, node = chain.numbers[reached], type(chain.nodes[reached]).__name__
        where = f"net {net.name!r}" if number is None else f"layer {number} of net {net.name!r}"
        raise RungError(f"these kernels have nothing for {node} ({where})")

    def _cuts(self, chain: Subgraph, below: frozenset[int] = frozenset()) -> list[Cut | None]:
        """Cheapest division of the first i nodes, or None, for each i from 0 to the number of nodes."""
        kinds = tuple(type(node) for node in chain.nodes)
        tables = (self,) if self.below is None else (self, self.below)
        longest = max(len(kinds) for table in tables for kinds in table.segments)
        ends = {len(kinds)} if any(table.chains for table in tables) else set()
        most = len(kinds) if any(table.fronts for table in tables) else longest  # of the first segment
        best: list[Cut | None] = [[], *([None] * len(kinds))]
        for first in range(len(kinds)):
            before = best[first]
            if before is None:
                continue
            reach = longest if first else most
            for last in sorted(ends | {*range(first + 1, min(first + reach, len(kinds)) + 1)}):
                part = chain.part(first, last)
                table = self.of(part, below)
                segment = None if table is None or part.flattens else table.takes(kinds[first:last], part)
                if segment is None:
                    continue
                found, cheapest = [*before, (part, segment)], best[last]
                if cheapest is None or _rank(found) < _rank(cheapest):
                    best[last] = found
        return best


#: A chain as segments, each with its nodes.
Cut = list[tuple[Subgraph, type[Segment]]]


def _rank(cut: Cut) -> tuple[float, tuple[int, ...]]:
    """Sort key of divisions of a chain, the best first: by cost, then by the lengths of the first segments."""
    return sum(segment.cost for _, segment in cut), tuple(-len(part.nodes) for part, _ in cut)
