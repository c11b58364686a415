"""Which layers of a net become one operation: a ReLU goes into the layer before it, enlargement by 2 into the
convolution after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....nets import Conv2d, Flatten, Layer, Linear, Net, ReLU, Upsample2d


@dataclass(frozen=True)
class Node:
    """One operation of the program's forward pass.

    layer, index : the layer (of a folded pair, the convolution). x, y : boundaries it leads from and to, where
    boundary i is the input of layer i. relu : a ReLU is part of it. folded : so is the upsampling before it.
    """

    layer: Layer
    index: int
    x: int
    y: int
    relu: bool = False
    folded: bool = False


def fuse(net: Net) -> tuple[int, list[Node]]:
    """The boundary at which samples enter (a leading Flatten costs nothing) and the operations from there."""
    layers = net.layers
    enter = 1 if isinstance(layers[0], Flatten) else 0
    nodes: list[Node] = []
    i = x = enter
    while i < len(layers):
        after = layers[i + 1] if i + 1 < len(layers) else None
        if isinstance(layers[i], Flatten) and len(net.shapes[i]) == 1:
            i += 1  # nothing to do, and no boundary of its own
            continue
        folded = (
            layers[i] == Upsample2d(scale_factor=2)
            and isinstance(after, Conv2d)
            and after == Conv2d(out_channels=after.out_channels, kernel_size=3, stride=1, padding=1)
        )
        i += folded
        index = i
        relu = isinstance(layers[i], (Linear, Conv2d)) and i + 1 < len(layers) and isinstance(layers[i + 1], ReLU)
        i += 1 + relu
        nodes.append(Node(layers[index], index, x, i, relu, folded))
        x = i
    return enter, nodes
