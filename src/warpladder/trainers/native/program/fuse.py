"""Fusion of layers: a ReLU with the layer before it, upsampling by 2 with the convolution after it."""

from __future__ import annotations

from dataclasses import dataclass

from ....nets import NORMALISATIONS, Conv2d, Flatten, Layer, Linear, Net, ReLU, Sum, Upsample2d


@dataclass(frozen=True)
class FusedLayer:
    """Operation of the program's forward pass.

    layer, index : the layer (of a folded pair, the convolution). x, y : input and output boundary;
    boundary i is the input of layer i. has_relu, is_folded : True if a ReLU, or upsampling before it, is fused.
    """

    layer: Layer
    index: int
    x: int
    y: int
    has_relu: bool = False
    is_folded: bool = False


def fuse(net: Net) -> tuple[int, list[FusedLayer]]:
    """Boundary of the samples (after a leading Flatten, which costs nothing), and the operations that follow."""
    layers = net.layers
    enter = 1 if isinstance(layers[0], Flatten) else 0
    nodes: list[FusedLayer] = []
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
        fusing = (Linear, Conv2d, Sum, *NORMALISATIONS)
        relu = isinstance(layers[i], fusing) and i + 1 < len(layers) and isinstance(layers[i + 1], ReLU)
        i += 1 + relu
        nodes.append(FusedLayer(layers[index], index, x, i, relu, folded))
        x = i
    return enter, nodes
