"""Boundaries between segments: shapes and float32 arrays of activations, gradients; boundary k precedes segment k."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ...device import Array, Device
from ...nets import CrossEntropyLoss, Net, ReLU
from ...ops.engine.segments import Cut


@dataclass(frozen=True)
class Boundaries:
    """Boundaries between the segments of a net's chain; cut : segments, each with its nodes."""

    net: Net
    cut: Cut

    @property
    def gathers(self) -> bool:
        """True if the first segment gathers the samples."""
        return self.cut[0][0].gathers

    @property
    def turns(self) -> bool:
        """True if the last segment ends with the loss."""
        return self.cut[-1][0].turns

    @property
    def is_one_segment(self) -> bool:
        """True if one segment computes a whole step, without boundary arrays."""
        return len(self.cut) == 1 and self.gathers and self.turns

    @property
    def places(self) -> range:
        """Boundaries that have an activation: not before a segment that gathers, nor after one with the loss."""
        return range(int(self.gathers), len(self.cut) + (not self.turns))

    def shape(self, place: int) -> tuple[int, ...]:
        """Shape of a sample, without the batch, at boundary `place`."""
        return self.cut[place - 1][0].out_shape if place else self.net.in_shape

    def is_input(self, place: int) -> bool:
        """True if boundary `place` is the net's input: no layer precedes it."""
        return not any(part.layers for part, _ in self.cut[:place])

    def in_place(self, number: int) -> bool:
        """True if segment `number` may overwrite its input: a lone ReLU, but not the net's input, a possible target."""
        (part, _) = self.cut[number]
        is_relu = len(part.nodes) == 1 and isinstance(part.nodes[0], ReLU)
        return is_relu and not self.is_input(number)

    def needs_gradient(self, place: int) -> bool:
        """True if a layer before boundary `place` is trained, so that the gradient at the boundary is computed."""
        if self.is_input(place):
            return False
        return any(part.layers_at.stop > self.net.first_trained for part, _ in self.cut[:place])

    def fuses_relu(self, number: int) -> bool:
        """True if segment `number` computes the backward pass of the ReLU at the end of the previous segment."""
        fuses = number > 0 and self.cut[number][1].fuses_relu_backward
        return fuses and isinstance(self.cut[number - 1][0].nodes[-1], ReLU)

    def sizes(self, capacity: int, train: bool) -> dict[str, int]:
        """Bytes of the arrays for `capacity` samples, by use, without the segments' scratch memory."""
        needs = {"input": 4 * capacity * math.prod(self.net.in_shape)} if not self.is_one_segment else {}
        for place in self.places:
            if self.is_input(place) or self.in_place(place - 1):
                continue
            layer = self.cut[place - 1][0].layers_at.stop - 1
            name = f"layer {layer} ({type(self.net.layers[layer]).__name__})"
            size = 4 * capacity * math.prod(self.shape(place))
            needs[f"output of {name}"] = size
            if train and self.needs_gradient(place):
                needs[f"gradient of {name}"] = size
        return needs


@dataclass
class BoundaryArrays:
    """Arrays at the boundaries between segments, for `capacity` samples.

    x : (capacity, *in_shape) float32, the net's input; None if one segment computes a whole step.
    labels : (capacity,) int32; None for a net without labels, or if one segment computes a whole step.
    targets : (capacity, outputs) float32 targets of the data set; None without targets.
    values, gradients : activations and gradients by boundary, in the shapes that the previous segments write.
    activations, own_gradients : distinct arrays among `values` without x, and among `gradients`, to count memory.
    """

    boundaries: Boundaries
    x: Array | None = None
    labels: Array | None = None
    targets: Array | None = None
    values: dict[int, Array] = field(default_factory=dict)
    gradients: dict[int, Array] = field(default_factory=dict)
    activations: list[Array] = field(default_factory=list)
    own_gradients: list[Array] = field(default_factory=list)


def allocate(boundaries: Boundaries, device: Device, capacity: int, train: bool, outputs: int = 0) -> BoundaryArrays:
    """Arrays at the boundaries for `capacity` samples; outputs : numbers in a target of the data set."""
    out = BoundaryArrays(boundaries)
    if boundaries.is_one_segment:
        return out
    net = boundaries.net
    out.x = device.empty((capacity, *net.in_shape), np.float32, "input")
    if train and isinstance(net.loss, CrossEntropyLoss):
        out.labels = device.zeros((capacity,), np.int32, "input")
    if train and outputs:
        out.targets = device.zeros((capacity, outputs), np.float32, "input")
    for place in boundaries.places:
        shape = (capacity, *boundaries.shape(place))
        if boundaries.is_input(place):
            out.values[place] = out.x.reshape(shape)
        elif boundaries.in_place(place - 1):
            out.values[place] = out.values[place - 1].reshape(shape)
        else:
            out.values[place] = device.empty(shape, np.float32, "activations")
            out.activations.append(out.values[place])
    for place in reversed(boundaries.places) if train else ():
        if not boundaries.needs_gradient(place):
            continue
        shape = out.values[place].shape
        if place < len(boundaries.cut) and boundaries.in_place(place):
            out.gradients[place] = out.gradients[place + 1].reshape(shape)
        else:
            out.gradients[place] = device.empty(shape, np.float32, "gradients")
            out.own_gradients.append(out.gradients[place])
    return out
