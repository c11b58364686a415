"""A thin last linear layer and cross-entropy in two launches, beside layers on tensor cores."""

from __future__ import annotations

from ..chain import Subgraph
from ..thin_chain.head import ThinHead

#: Share of a net's product FLOPs that may be left to multiply-adds outside of tensor cores.
SHARE = 0.05


class SmallHead(ThinHead):
    """ThinHead, where at least 1 - SHARE of the FLOPs of the net's products of matrices are left to tensor cores."""

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        (linear,) = subgraph.layers
        return super().takes(subgraph) and 3 * linear.flops(subgraph.shapes[0]) <= SHARE * subgraph.product_flops
