"""A training step as one chain of nodes: the gathering of the samples, the layers, and the loss, where a step turns
round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from ...config import TrainConfig
from ...device import Limits
from ...nets import Flatten, Layer, Loss, Net, Shape


@dataclass(frozen=True)
class Gather:
    """The first node of a chain whose samples lie on the device: rows of the data set, in the order of the epoch, times
    the data set's scale.
    """


Node = Gather | Layer | Loss


@dataclass(frozen=True)
class Slice:
    """Samples that go through a chain at one time: n of a step's `batch`, from its position `offset` on.

    has_loss : whether their loss and the count of right ones are computed; the gradient is in any case.
    """

    n: int
    batch: int
    offset: int = 0
    has_loss: bool = True

    @property
    def first(self) -> bool:
        return self.offset == 0

    @property
    def last(self) -> bool:
        return self.offset + self.n == self.batch

    @property
    def whole(self) -> bool:
        """True if the batch comes in one piece."""
        return self.n == self.batch


def whole(n: int) -> Slice:
    """A batch of n samples in one piece."""
    return Slice(n, n)


def timed(n: int) -> Slice:
    """n samples as a slice of a larger batch: no segment updates parameters, so launches may be sent to be timed."""
    return Slice(n, n + 1)


@dataclass(frozen=True)
class Subgraph:
    """Consecutive nodes of a chain, and what is known of them before they have arrays.

    nodes : tuple of Node
        Flatten is none of them: what it does shows in the shapes.
    numbers : tuple of int or None
        For each node the number of its layer in the net.
    shapes : tuple of Shape
        Of a sample as it enters each node.
    capacity : int
        Samples at a time, at most.
    batch : int
        Samples of a full batch: a step's samples stand from position step * batch on in the epoch's order.
    limits : Limits
        Of the device.
    config : TrainConfig or None
        What is trained; None for a chain that only predicts.
    precision : str
        What the arithmetic of layers is done in.
    product_flops : int
        FLOPs of one sample's products of matrices in a training step of the net that the nodes belong to; 0 where no
        net is known.
    """

    nodes: tuple[Node, ...]
    numbers: tuple[int | None, ...]
    shapes: tuple[Shape, ...]
    capacity: int
    batch: int
    limits: Limits
    config: TrainConfig | None = None
    precision: str = "fp32"
    product_flops: int = 0

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers among the nodes; Flatten is never among them."""
        return tuple(node for node in self.nodes if isinstance(node, Layer))

    @property
    def layers_at(self) -> range:
        """The numbers of its layers in the net; a Flatten between them is counted in."""
        found = [number for number in self.numbers if number is not None]
        return range(found[0], found[-1] + 1) if found else range(0)

    @property
    def out_shape(self) -> Shape:
        """The shape of a sample, without the batch, as it leaves the last node; for a loss, which lets nothing out, the
        shape of the loss's input.
        """
        last, shape = self.nodes[-1], self.shapes[-1]
        return last.out_shape(shape) if isinstance(last, Layer) else shape

    @property
    def flattens(self) -> bool:
        """True if a Flatten between two of its layers changes a sample's shape."""
        return any(
            isinstance(node, Layer) and isinstance(after, Layer) and node.out_shape(shape) != entering
            for node, shape, after, entering in zip(
                self.nodes, self.shapes, self.nodes[1:], self.shapes[1:], strict=False
            )
        )

    @property
    def gathers(self) -> bool:
        """True if the first node is the gathering of the samples."""
        return isinstance(self.nodes[0], Gather)

    @property
    def turns(self) -> bool:
        """True if the last node is the loss, after which the backward pass begins."""
        return isinstance(self.nodes[-1], Loss)

    def part(self, first: int, last: int) -> Subgraph:
        """Nodes first..last-1 of these."""
        some = slice(first, last)
        return replace(self, nodes=self.nodes[some], numbers=self.numbers[some], shapes=self.shapes[some])


def subgraph(layers: tuple[Layer, ...], in_shape: Shape, capacity: int, limits: Limits) -> Subgraph:
    """Layers alone, none of them Flatten, numbered from 0 and without a net around them."""
    shapes = accumulate(layers[:-1], lambda shape, layer: layer.out_shape(shape), initial=in_shape)
    return Subgraph(layers, tuple(range(len(layers))), tuple(shapes), capacity, capacity, limits)


def products(net: Net, number: int) -> tuple[int, ...]:
    """FLOPs of one sample in each product of matrices of a layer: y, dw, and dx where a layer before it is trained;
    none for layers without parameters.
    """
    layer, shape = net.layers[number], net.shapes[number]
    return (layer.flops(shape),) * (2 + (number > net.first_trained)) if layer.param_shapes(shape) else ()


def product_flops(net: Net) -> int:
    """FLOPs of one sample's products of matrices in a training step."""
    return sum(sum(products(net, number)) for number in range(len(net.layers)))


def gathering(in_shape: Shape, capacity: int, limits: Limits) -> Subgraph:
    """The gathering of samples alone."""
    return Subgraph((Gather(),), (None,), (in_shape,), capacity, capacity, limits)


def chain(
    net: Net,
    capacity: int,
    batch: int,
    limits: Limits,
    config: TrainConfig | None,
    gathers: bool,
    precision: str = "fp32",
) -> Subgraph:
    """The nodes of a net's step: the gathering of the samples, where they lie on the device, the layers and the loss.

    Parameters
    ----------
    capacity, batch, limits, config, precision
        As `Subgraph`. Without a config there is no loss.
    gathers : bool
        Whether the samples lie on the device; if not, a feed brings them.
    """
    computing = [number for number, layer in enumerate(net.layers) if not isinstance(layer, Flatten)]
    first: tuple[Node, ...] = (Gather(),) if gathers else ()
    last: tuple[Node, ...] = (net.loss,) if config is not None else ()
    shapes = [net.in_shape] * len(first) + [net.shapes[number] for number in computing] + [net.out_shape] * len(last)
    return Subgraph(
        (*first, *(net.layers[number] for number in computing), *last),
        (*(None for _ in first), *computing, *(None for _ in last)),
        tuple(shapes),
        capacity, batch, limits, config, precision, product_flops=product_flops(net),
    )  # fmt: skip
