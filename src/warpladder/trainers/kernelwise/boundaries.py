"""Boundaries between segments: shapes and float32 arrays of activations, gradients; boundary k precedes segment k."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ...device import Array, Device
from ...nets import ACTIVATIONS, Branch, CrossEntropyLoss, Layer, Net, ReLU, Shortcut, Sum
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
        """True if segment `number` may overwrite its input: a lone ReLU, but not the net's input, a possible target,
        nor what a residual connection reads too.
        """
        before, after = self._layers(number - 1)[-1:], self._layers(number + 1)[:1]
        shared = any(isinstance(layer, (Branch, Shortcut)) for layer in before) or any(
            isinstance(layer, (Shortcut, Sum)) for layer in after
        )
        return self._is_alone(number, ReLU) and not shared and not self.is_input(number)

    def value_of(self, place: int) -> int:
        """Boundary whose array has the activations of `place`: an earlier one after a ReLU in place, or a copy."""
        number = place - 1
        if number < 0 or self.is_input(place):
            return place
        if self.in_place(number) or self._is_alone(number, Branch):
            return self.value_of(number)
        if self._is_alone(number, Shortcut):
            return self.value_of(self.before(self.net.skips.stored[self.cut[number][0].layers_at.start]))
        return place

    def gradient_of(self, place: int) -> int:
        """Boundary whose array has the gradient of `place`: a later one before a ReLU in place, or before a `Shortcut`
        or a `Sum` unless the segment before it overwrites the gradient with one that its ReLU or activation masks.
        """
        if place == len(self.cut):
            return place
        layers, overwrites = (
            self._layers(place),
            any(isinstance(layer, (ReLU, *ACTIVATIONS)) for layer in self._layers(place - 1)),
        )
        if self.in_place(place) or (layers and isinstance(layers[0], Sum) and not overwrites):
            return self.gradient_of(place + 1)
        if self._is_alone(place, Shortcut) and not overwrites:
            end = self.net.skips.returned[self.cut[place][0].layers_at.start] - 1
            return self.gradient_of(self.with_layer(end) + 1)
        return place

    def with_layer(self, layer: int) -> int:
        """Number of the segment that computes layer `layer`."""
        return next(at for at, (part, _) in enumerate(self.cut) if layer in part.layers_at)

    def before(self, layer: int) -> int:
        """Boundary with the input of layer `layer`: the first of its segment, or a `Branch` at the end of one."""
        at = self.with_layer(layer)
        return at + (layer != self.cut[at][0].layers_at.start)

    def _layers(self, number: int) -> tuple[Layer, ...]:
        """Layers of segment `number`; none beyond the chain."""
        return self.cut[number][0].layers if 0 <= number < len(self.cut) else ()

    def _is_alone(self, number: int, kind: type[Layer]) -> bool:
        """True if segment `number` is one layer of this kind."""
        nodes = self.cut[number][0].nodes
        return len(nodes) == 1 and isinstance(nodes[0], kind)

    def needs_gradient(self, place: int) -> bool:
        """True if a layer before boundary `place` is trained, so that the gradient at the boundary is computed."""
        if self.is_input(place):
            return False
        return any(part.layers_at.stop > self.net.first_trained for part, _ in self.cut[:place])

    def fuses_relu(self, number: int) -> bool:
        """True if segment `number` computes the backward pass of the ReLU at the end of the previous segment."""
        fuses = number > 0 and self.cut[number][1].fuses_relu_backward and not self.cut[number - 1][1].masks_dy
        return fuses and isinstance(self.cut[number - 1][0].nodes[-1], ReLU)

    def sizes(self, capacity: int, train: bool) -> dict[str, int]:
        """Bytes of the arrays for `capacity` samples, by use, without the segments' scratch memory."""
        needs = {"input": 4 * capacity * math.prod(self.net.in_shape)} if not self.is_one_segment else {}
        for place in self.places:
            if self.is_input(place):
                continue
            layer = self.cut[place - 1][0].layers_at.stop - 1
            name = f"layer {layer} ({type(self.net.layers[layer]).__name__})"
            size = 4 * capacity * math.prod(self.shape(place))
            if self.value_of(place) == place:
                needs[f"output of {name}"] = size
            if train and self.needs_gradient(place) and self.gradient_of(place) == place:
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
        shape, source = (capacity, *boundaries.shape(place)), boundaries.value_of(place)
        if boundaries.is_input(place):
            out.values[place] = out.x.reshape(shape)
        elif source != place:
            out.values[place] = out.values[source].reshape(shape)
        else:
            out.values[place] = device.empty(shape, np.float32, "activations")
            out.activations.append(out.values[place])
    for place in reversed(boundaries.places) if train else ():
        if not boundaries.needs_gradient(place):
            continue
        shape, source = out.values[place].shape, boundaries.gradient_of(place)
        if source != place:
            out.gradients[place] = out.gradients[source].reshape(shape)
        else:
            out.gradients[place] = device.empty(shape, np.float32, "gradients")
            out.own_gradients.append(out.gradients[place])
    return out
