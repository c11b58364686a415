"""A net's chain on a device: which segments compute it, the arrays between them, and a step as stages of launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...device import Array, Device
from ...nets import CrossEntropyLoss, Net, ReLU
from ...nets.params import param_slices
from ...ops.engine.base import Buffers
from ...ops.engine.chain import Slice
from ...ops.engine.kernels import KernelUpdate, Launches, Log
from ...ops.engine.segments import Cut, Operands, Samples, Segment


@dataclass(frozen=True)
class Stage:
    """A part of a step: what is done, to which layers (none for feed, loss, sum and update), by which launches."""

    phase: str
    layers: range
    launches: Launches


@dataclass(frozen=True)
class Between:
    """What the places between a cut's segments hold. Place k is before segment k; the last one is what leaves the net.

    cut : the segments, each with its nodes.
    """

    net: Net
    cut: Cut

    @property
    def gathers(self) -> bool:
        """Whether the first segment gathers the samples."""
        return self.cut[0][0].gathers

    @property
    def turns(self) -> bool:
        """Whether the last segment ends with the loss."""
        return self.cut[-1][0].turns

    @property
    def alone(self) -> bool:
        """Whether one segment computes a whole step: there is nothing between."""
        return len(self.cut) == 1 and self.gathers and self.turns

    @property
    def places(self) -> range:
        """The places that have an activation: not before a segment that gathers, nor behind one with the loss."""
        return range(int(self.gathers), len(self.cut) + (not self.turns))

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape of a sample, without the batch, as it leaves the segment before a place; at place 0, as it enters
        the net.
        """
        return self.cut[place - 1][0].out_shape if place else self.net.in_shape

    def is_input(self, place: int) -> bool:
        """Whether the net's input lies at a place: no layer is before it."""
        return not any(part.layers for part, _ in self.cut[:place])

    def in_place(self, number: int) -> bool:
        """True if a segment may write over its input: a lone ReLU, unless its input is the net's, which MSELoss reads."""
        (part, _) = self.cut[number]
        alone = len(part.nodes) == 1 and isinstance(part.nodes[0], ReLU)
        return alone and not self.is_input(number)

    def wants_gradient(self, place: int) -> bool:
        """Whether somebody before a place trains: then the gradient of what lies there is computed."""
        if self.is_input(place):
            return False
        return any(part.layers_at.stop > self.net.first_trained for part, _ in self.cut[:place])

    def fuses_relu(self, number: int) -> bool:
        """True if a segment computes the backward pass of the ReLU at the end of the previous segment."""
        return (
            number > 0
            and self.cut[number][1].fuses_relu_backward
            and isinstance(self.cut[number - 1][0].nodes[-1], ReLU)
        )

    def sizes(self, capacity: int, train: bool) -> dict[str, int]:
        """Bytes of the arrays for `capacity` samples, by what they are for; the segments' own scratch memory is not
        among them.
        """
        needs = {"input": 4 * capacity * math.prod(self.net.in_shape)} if not self.alone else {}
        for place in self.places:
            if self.is_input(place) or self.in_place(place - 1):
                continue
            layer = self.cut[place - 1][0].layers_at.stop - 1
            name = f"layer {layer} ({type(self.net.layers[layer]).__name__})"
            size = 4 * capacity * math.prod(self.shape(place))
            needs[f"output of {name}"] = size
            if train and self.wants_gradient(place):
                needs[f"gradient of {name}"] = size
        return needs


@dataclass
class Arrays:
    """The memory between a cut's segments, for a number of samples.

    x : (capacity, *in_shape) float32, what enters the net; None where one segment computes a whole step.
    labels : (capacity,) int32; None where the net learns none, or one segment computes a whole step.
    values, gradients : by place, in the shape in which the segment before it writes.
    own : the distinct ones of them but x, activations and gradients, for the account of memory.
    """

    x: Array | None
    labels: Array | None
    values: dict[int, Array]
    gradients: dict[int, Array]
    activations: list[Array] = field(default_factory=list)
    own_gradients: list[Array] = field(default_factory=list)


def allocate(between: Between, device: Device, capacity: int, train: bool) -> Arrays:
    """Take the memory between segments for `capacity` samples."""
    if between.alone:
        return Arrays(None, None, {}, {})
    net = between.net
    x = device.empty((capacity, *net.in_shape), np.float32, "input")
    labelled = train and isinstance(net.loss, CrossEntropyLoss)
    out = Arrays(x, device.zeros((capacity,), np.int32, "input") if labelled else None, {}, {})
    for place in between.places:
        shape = (capacity, *between.shape(place))
        if between.is_input(place):
            out.values[place] = x.reshape(shape)
        elif between.in_place(place - 1):
            out.values[place] = out.values[place - 1].reshape(shape)
        else:
            out.values[place] = device.empty(shape, np.float32, "activations")
            out.activations.append(out.values[place])
    for place in reversed(between.places) if train else ():
        if not between.wants_gradient(place):
            continue
        shape = out.values[place].shape
        if place < len(between.cut) and between.in_place(place):
            out.gradients[place] = out.gradients[place + 1].reshape(shape)
        else:
            out.gradients[place] = device.empty(shape, np.float32, "gradients")
            out.own_gradients.append(out.gradients[place])
    return out


class Chain:
    """Segments bound to a device's memory.

    Parameters
    ----------
    between : Between
    device : Device
    arrays : Arrays
        What lies between the segments.
    params, grads : mapping of str to Array
        By the names of `params.param_slices`; empty grads bind for prediction alone.
    block_size : int
    samples : Samples, optional
        Where a segment gathers.
    log : Log, optional
        Where a segment has the loss.
    update : callable, optional
        Given the names of some parameters, the optimizer's step on exactly those.

    Attributes
    ----------
    segments : list of Segment
    updated : set of str
        The parameters that segments update themselves where a batch comes in one piece.
    """

    def __init__(
        self, between: Between, device: Device, arrays: Arrays, params: Mapping[str, Array], grads: Mapping[str, Array], block_size: int,
        samples: Samples | None = None, log: Log | None = None, update: Callable[[list[str]], KernelUpdate] | None = None,
    ) -> None:  # fmt: skip
        self.between, self.device, self.arrays = between, device, arrays
        self.capacity = between.cut[0][0].capacity
        self.segments: list[Segment] = []
        self.updated: set[str] = set()
        labelled = isinstance(between.net.loss, CrossEntropyLoss)
        for number, (part, kind) in enumerate(between.cut):
            names = [
                place.name for place in param_slices(between.net) if int(place.name.partition(".")[0]) in part.layers_at
            ]
            w, dw = (tuple(views[name] for name in names if name in views) for views in (params, grads))
            own = update(names) if update is not None and names and kind.updates_in_place(part) else None
            operands = Operands(
                self._buffers(number, w, dw), w, dw, samples if part.gathers else None,
                arrays.labels if part.gathers or labelled else arrays.x if part.turns else None, log if part.turns else None, own,
                between.fuses_relu(number), number + 1 < len(between.cut) and between.fuses_relu(number + 1),
                self.segments[-1] if self.segments and self.segments[-1].layers else None,
            )  # fmt: skip
            self.segments.append(kind(device, part, operands, block_size))
            self.updated.update(names if self.segments[-1].update is not None else ())

    def _buffers(self, number: int, w: tuple[Array, ...], dw: tuple[Array, ...]) -> Buffers:
        """What a segment reads and writes, as `Operands` says."""
        values, gradients = self.arrays.values, self.arrays.gradients
        part, _ = self.between.cut[number]
        x, dx = (self.arrays.x if part.gathers else values[number]), gradients.get(number)
        entering = part.shapes[part.gathers and bool(part.layers)]  # its first layer; a Flatten may lie before it
        x, dx = (None if array is None else array.reshape((len(array), *entering)) for array in (x, dx))
        weights = (*w, None, None)[:2], (*dw, None, None)[:2]
        return Buffers(x, values.get(number + 1), dx, gradients.get(number + 1), *weights[0], *weights[1])

    @property
    def layered(self) -> list[int]:
        """The segments, by their number, that compute layers and nothing else."""
        return [number for number, (part, _) in enumerate(self.between.cut) if not part.gathers and not part.turns]

    @property
    def multiplying(self) -> list[int]:
        """The segments, by their number, whose products of matrices can be sent by themselves: all but one with the
        loss.
        """
        return [number for number, (part, _) in enumerate(self.between.cut) if not part.turns]

    @property
    def reads_order(self) -> bool:
        """Whether a step's launches read the order."""
        return all(segment.reads_order for segment in self.segments)

    def prepare(self, part: Slice, repeated: bool = False) -> list[Stage]:
        """Launches that depend on the parameters alone, as `Segment.prepare`."""
        stages = [_stage("prepare", segment, segment.prepare(part, repeated)) for segment in self.segments]
        return [stage for stage in stages if stage.launches]

    def forward(self, part: Slice) -> list[Stage]:
        """All segments, for a slice."""
        if self.between.alone:
            (segment,) = self.segments
            return [_stage("step", segment, [*segment.forward(part), *segment.backward(part)])]
        return [_stage(_forward(segment), segment, segment.forward(part)) for segment in self.segments]

    def backward(self, part: Slice) -> list[Stage]:
        """All gradients that somebody needs."""
        if self.between.alone:
            return []
        trained = [s for s in reversed(self.segments) if s.subgraph.layers_at.stop > self.between.net.first_trained]
        return [_stage("backward", segment, segment.backward(part)) for segment in trained]


def _forward(segment: Segment) -> str:
    """The phase of a segment's way forward."""
    part = segment.subgraph
    return "forward" if part.layers else "feed" if part.gathers else "loss"


def _stage(phase: str, segment: Segment, launches: Launches) -> Stage:
    return Stage(phase, segment.subgraph.layers_at, launches)
