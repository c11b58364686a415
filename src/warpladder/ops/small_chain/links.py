"""Links of a small chain: linear layers, the functions of one number between them, and the loss."""

from __future__ import annotations

from dataclasses import dataclass

from ... import nets
from ..engine.chain import GeneralLoss, Subgraph

#: Layers that compute a number from a number.
FUNCTIONS: tuple[type[nets.Layer], ...] = (nets.ReLU, nets.Dropout, *nets.ACTIVATIONS)
#: Most linear layers, and most classes: a lane of a warp has every 32nd in registers.
MOST, CLASSES = 17, 256


@dataclass(frozen=True)
class Function:
    """Function of one number: a layer, and its number in the net."""

    layer: nets.Layer
    number: int


@dataclass(frozen=True)
class Links:
    """Links of a chain, by the number of the linear layer from 1 on; 0 is its input.

    widths : of the input and of each layer's output. has_bias : of each layer, True for the input.
    functions : in order, those after each layer and before the first one.
    """

    widths: tuple[int, ...]
    has_bias: tuple[bool, ...]
    functions: tuple[tuple[Function, ...], ...]
    loss: nets.Loss

    @property
    def last(self) -> int:
        """Number of the last layer."""
        return len(self.widths) - 1

    @property
    def outputs(self) -> int:
        return self.widths[-1]

    @property
    def has_labels(self) -> bool:
        return isinstance(self.loss, nets.CrossEntropyLoss)

    @property
    def has_settings(self) -> bool:
        """True if the loss reads a number for each output (`loss.scalar.settings`)."""
        if self.has_labels:
            return not self.loss.is_plain
        return isinstance(self.loss, (nets.HuberLoss, nets.BCEWithLogitsLoss))

    def keeps_slopes(self, number: int, has_dx: bool) -> bool:
        """True if the slopes of a link's functions are kept: a lone ReLU's are seen from its output.

        has_dx : True if the gradient by the chain's input is computed.
        """
        kinds = [type(each.layer) for each in self.functions[number]]
        return kinds not in ([], [nets.ReLU]) and (number > 0 or has_dx)

    def launches(self, has_dx: bool) -> int:
        """Launches that segments of a layer each take at least: one forward and one backward, where there is a gradient
        by their input; a ReLU takes none, a loss by element one.
        """
        own = [sum(type(each.layer) is not nets.ReLU for each in functions) for functions in self.functions]
        return 2 * (self.last + sum(own)) - (not has_dx) * (1 + own[0]) + (not self.has_labels)

    def further_rows(self, has_dx: bool) -> dict[str, int]:
        """Widths of a sample's rows but its activations, by name: slopes, targets and settings of the loss."""
        found = {
            f"slopes {number}": width for number, width in enumerate(self.widths) if self.keeps_slopes(number, has_dx)
        }
        if not self.has_labels:
            found["targets"] = self.outputs
        return found | ({"settings": self.outputs} if self.has_settings else {})


def links(subgraph: Subgraph) -> Links | None:
    """Links of a segment's nodes; None if they are not a chain of linear layers that ends with a loss."""
    *nodes, last = subgraph.nodes
    loss = last.loss if isinstance(last, GeneralLoss) else last
    if not isinstance(loss, (nets.CrossEntropyLoss, nets.ElementLoss)):
        return None
    first = int(subgraph.gathers)
    layers: list[nets.Linear] = []
    functions: list[list[Function]] = [[]]
    for node, number in zip(nodes[first:], subgraph.numbers[first:-1], strict=True):
        if isinstance(node, nets.Linear):
            layers.append(node)
            functions.append([])
            continue
        if not isinstance(node, FUNCTIONS):
            return None
        assert number is not None
        functions[-1].append(Function(node, number))
    if not 0 < len(layers) <= MOST or len(subgraph.shapes[first]) != 1:
        return None
    if isinstance(loss, nets.CrossEntropyLoss) and layers[-1].out_features > CLASSES:
        return None
    return Links(
        (subgraph.shapes[first][0], *(layer.out_features for layer in layers)),
        (True, *(layer.bias for layer in layers)), tuple(map(tuple, functions)), loss,
    )  # fmt: skip
