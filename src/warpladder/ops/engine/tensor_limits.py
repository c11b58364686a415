"""Which products a rung on tensor cores may leave to multiply-adds: those of thin layers, where they are a small share
of their net's.
"""

from __future__ import annotations

from ...nets import Layer
from .chain import Subgraph

#: Shares of a net's product FLOPs in a training step, at most: of a last layer that is multiplied with the loss, and of
#: a first convolution of few terms. At least 95 % are left to tensor cores, whatever the net is.
HEAD, FIRST = 0.02, 0.03


def is_small(subgraph: Subgraph, share: float, products: int) -> bool:
    """Whether so many products for each of a subgraph's layers take no more than a share of those of its net; never,
    where the net is not known.
    """
    own = sum(
        node.flops(shape)
        for node, shape in zip(subgraph.nodes, subgraph.shapes, strict=True)
        if isinstance(node, Layer)
    )
    return products * own <= share * subgraph.product_flops
