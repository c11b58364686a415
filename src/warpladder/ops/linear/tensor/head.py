"""Thin last linear layer and cross-entropy in two launches, after layers on tensor cores."""

from ...engine.chain import Subgraph
from ...engine.tensor_limits import HEAD, is_small
from ...thin_chain.head import ThinHead
from ...update.fused import UpdatesInPlace


class SmallHead(UpdatesInPlace, ThinHead):
    """`ThinHead` by multiply-adds in a net on tensor cores, if its products are a small share of the net's FLOPs."""

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return super().takes(subgraph) and is_small(subgraph, HEAD, products=3)
