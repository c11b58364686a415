"""Training step as a chain of nodes: the gathering of samples, the layers, and the loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from ...config import TrainConfig
from ...device import Limits
from ...nets import Flatten, Layer, Loss, Net, Shape


@dataclass(frozen=True)
class Gather:
    """Gathering of samples that are stored on the device: rows of the data set by the epoch's order, scaled.

    samples : how many are stored; 0 if that is not known. itemsize : bytes of a stored number.
    """

    samples: int = 0
    itemsize: int = 4


@dataclass(frozen=True)
class GeneralLoss(Loss):
    """Loss with settings, or with weights of samples, which no fused kernel computes: last node of a chain."""

    loss: Loss


Node = Gather | Layer | Loss


@dataclass(frozen=True)
class Slice:
    """Samples that pass a chain together: n samples of a step's `batch`, from position `offset` of the batch on.

    has_loss : True if their loss and the number of correct ones are computed; the gradient is always computed.
    """

    n: int
    batch: int
    offset: int = 0
    has_loss: bool = True

    @property
    def is_first(self) -> bool:
        return self.offset == 0

    @property
    def is_last(self) -> bool:
        return self.offset + self.n == self.batch

    @property
    def is_whole(self) -> bool:
        """True if the slice is the whole batch."""
        return self.n == self.batch


def whole(n: int) -> Slice:
    """Slice of a whole batch of n samples."""
    return Slice(n, n)


def timed(n: int) -> Slice:
    """Slice of n samples of a larger batch, for timing: no segment updates parameters after it."""
    return Slice(n, n + 1)


@dataclass(frozen=True)
class Subgraph:
    """Consecutive nodes of a chain, with their shapes and settings, before arrays exist.

    nodes : the nodes without Flatten, which shows in the shapes.
    numbers : for each node the number of its layer in the net; None for a gathering or a loss.
    shapes : shape of a sample at the input of each node.
    capacity : samples that the arrays hold.
    batch : samples of a full batch: step k has positions k * batch and following of the epoch's order.
    limits : limits of the device.
    config : None for a chain that only predicts.
    precision : number format of the layers' arithmetic.
    product_flops : FLOPs of one sample's matrix products in a training step of the whole net; 0 if the net is unknown.
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
        """Layers among the nodes."""
        return tuple(node for node in self.nodes if isinstance(node, Layer))

    @property
    def layers_at(self) -> range:
        """Range of the layers' numbers in the net, including a Flatten between them."""
        found = [number for number in self.numbers if number is not None]
        return range(found[0], found[-1] + 1) if found else range(0)

    @property
    def out_shape(self) -> Shape:
        """Shape of a sample at the output of the last node; if it is a loss, the shape of its input."""
        last, shape = self.nodes[-1], self.shapes[-1]
        return last.out_shape(shape) if isinstance(last, Layer) else shape

    @property
    def flattens(self) -> bool:
        """True if a Flatten between two of the layers changes a sample's shape."""
        pairs = zip(self.nodes, self.shapes, self.nodes[1:], self.shapes[1:], strict=False)
        return any(
            isinstance(node, Layer) and isinstance(after, Layer) and node.out_shape(shape) != entering
            for node, shape, after, entering in pairs
        )

    @property
    def gathers(self) -> bool:
        """True if the first node is the gathering of samples."""
        return isinstance(self.nodes[0], Gather)

    @property
    def turns(self) -> bool:
        """True if the last node is the loss, after which the backward pass begins."""
        return isinstance(self.nodes[-1], Loss)

    def part(self, first: int, last: int) -> Subgraph:
        """Subgraph of nodes first to last - 1."""
        some = slice(first, last)
        return replace(self, nodes=self.nodes[some], numbers=self.numbers[some], shapes=self.shapes[some])


def subgraph(layers: tuple[Layer, ...], in_shape: Shape, capacity: int, limits: Limits) -> Subgraph:
    """Subgraph of layers without a net, numbered from 0; none of them is a Flatten."""
    shapes = accumulate(layers[:-1], lambda shape, layer: layer.out_shape(shape), initial=in_shape)
    return Subgraph(layers, tuple(range(len(layers))), tuple(shapes), capacity, capacity, limits)


def products(net: Net, number: int) -> tuple[int, ...]:
    """FLOPs of a sample in the products y, dw and, if an earlier layer is trained, dx; () without parameters."""
    layer, shape = net.layers[number], net.shapes[number]
    return (layer.flops(shape),) * (2 + (number > net.first_trained)) if layer.param_shapes(shape) else ()


def product_flops(net: Net) -> int:
    """FLOPs of one sample's matrix products in a training step of the net."""
    return sum(sum(products(net, number)) for number in range(len(net.layers)))


def gathering(in_shape: Shape, capacity: int, limits: Limits) -> Subgraph:
    """Chain of the gathering of samples alone."""
    return Subgraph((Gather(),), (None,), (in_shape,), capacity, capacity, limits)


def chain(
    net: Net, capacity: int, batch: int, limits: Limits, config: TrainConfig | None, gathers: Gather | bool,
    precision: str = "fp32", has_shares: bool = False,
) -> Subgraph:  # fmt: skip
    """Chain of a net's step: the gathering of samples, the layers and, with a config, the loss.

    capacity, batch, limits, config, precision : as in `Subgraph`.
    gathers : the gathering, or True, if the samples are stored on the device; False if a feed copies them to it.
    has_shares : True if samples have weights in the mean of their batch.
    """
    computing = [number for number, layer in enumerate(net.layers) if not isinstance(layer, Flatten)]
    first: tuple[Node, ...] = () if not gathers else (gathers if isinstance(gathers, Gather) else Gather(),)
    loss = net.loss if net.loss.is_plain and not has_shares else GeneralLoss(net.loss)
    last: tuple[Node, ...] = (loss,) if config is not None else ()
    shapes = [net.in_shape] * len(first) + [net.shapes[number] for number in computing] + [net.out_shape] * len(last)
    return Subgraph(
        (*first, *(net.layers[number] for number in computing), *last),
        (*(None for _ in first), *computing, *(None for _ in last)),
        tuple(shapes),
        capacity, batch, limits, config, precision, product_flops=product_flops(net),
    )  # fmt: skip
