"""Tensors between layers: activations and their gradients, with the zero borders that their readers need."""

from __future__ import annotations

from ....nets import Conv2d, MaxPool2d, Net, Shape
from .fuse import FusedLayer
from .layout import padded, stays_in_place
from .phases import phases
from .tensors import Arena, Tensor

NO_BORDERS = (0, 0)  # rows and columns of zeros before and after an image


class ActivationBoundaries:
    """Activations and gradients by boundary; boundary i is the input of layer i.

    values : activations. gradients : gradients at the boundaries after the first trained layer. copies : private copies
    of flat samples, one for each thread that needs one.
    """

    def __init__(self, net: Net, enter: int, nodes: list[FusedLayer], arena: Arena, copies: int = 1) -> None:
        self.net = net
        self.arena = arena
        self.values: dict[int, Tensor] = {}
        self.gradients: dict[int, Tensor] = {}
        self._consumers = {node.x: node for node in nodes}
        shape = net.shapes[enter]
        self.values[enter] = (
            arena.flat(shape[0], copies) if len(shape) == 1 else self.tensor(shape, enter, self._border(enter))
        )
        for node in nodes:
            in_place = stays_in_place(net, node.index)
            shape, border = net.shapes[node.y], self._border(node.y)
            self.values[node.y] = self.values[node.x].flattened() if in_place else self.tensor(shape, node.y, border)
        for node in nodes:
            if self._has_gradient(node.y):
                in_place = stays_in_place(net, node.index)
                self.gradients[node.y] = self.gradients[node.x].flattened() if in_place else self._gradient(node)

    def tensor(
        self, shape: Shape, at: int, borders: tuple[int, int] = NO_BORDERS, spare: Tensor | None = None
    ) -> Tensor:
        """Tensor for boundary `at`; the memory of `spare` is reused if it is large enough."""
        if len(shape) == 1:
            return self.arena.flat(shape[0])
        # channels that no trained layer has made are not padded
        channels = shape[0] if at <= self.net.first_trained else padded(shape[0])
        return self.arena.image(shape, channels, *borders, spare)

    def _border(self, at: int) -> tuple[int, int]:
        consumer = self._consumers.get(at)
        padding = consumer.layer.padding if consumer is not None and isinstance(consumer.layer, Conv2d) else 0
        return padding, padding

    def _gradient(self, producer: FusedLayer) -> Tensor:
        borders = self._gradient_border(producer)
        spare = self._read_before(producer.y) if borders == NO_BORDERS else None
        return self.tensor(self.net.shapes[producer.y], producer.y, borders, spare)

    def _read_before(self, at: int) -> Tensor | None:
        """Output of the convolution after a boundary, if its last reader is a pool before the gradient is written."""
        layer = self._consumers.get(at)
        after = self._consumers.get(layer.y) if layer is not None and isinstance(layer.layer, Conv2d) else None
        return self.values[after.x] if after is not None and isinstance(after.layer, MaxPool2d) else None

    def _gradient_border(self, producer: FusedLayer) -> tuple[int, int]:
        """Zeros around output gradients that make each phase of the input gradient a convolution of them."""
        layer = producer.layer
        if not isinstance(layer, Conv2d) or not self._has_gradient(producer.x):
            return NO_BORDERS
        if producer.is_folded:
            return 1, 1
        inputs, outputs = self.net.shapes[producer.index][1:], self.net.shapes[producer.index + 1][1:]
        reach = [
            (-phase.start, phase.end - output)
            for length, output in zip(inputs, outputs, strict=True)
            for phase in phases(layer, length)
            if phase.pixels and phase.taps
        ]
        before, after = (max(0, *side) for side in zip(*reach, strict=True))
        return before, after

    def _has_gradient(self, at: int) -> bool:
        return at > self.net.first_trained
