"""Products that a rung on tensor cores may compute by multiply-adds: thin layers with a small share of the FLOPs."""

from ...nets import Layer
from .chain import Subgraph

#: Largest shares of a net's product FLOPs in a training step: of a last layer fused with the loss, and of a first
#: convolution of few terms. Tensor cores compute at least 95 % of any net.
HEAD, FIRST = 0.02, 0.03


def is_small(subgraph: Subgraph, share: float, products: int) -> bool:
    """True if `products` products of each layer are at most a share of the net's FLOPs; False if the net is unknown."""
    nodes = zip(subgraph.nodes, subgraph.shapes, strict=True)
    own = sum(node.flops(shape) for node, shape in nodes if isinstance(node, Layer))
    return products * own <= share * subgraph.product_flops
