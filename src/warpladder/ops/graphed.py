"""What the graph rung replays: the gemm rung's kernels, or the tiled rung's where a tuner finds them faster.

The last thin layer and the loss are one, and so are whole steps of thin nets.
"""

from __future__ import annotations

from dataclasses import replace

from . import gemm, tiled
from .apart import Apart
from .thin_chain.chain import ThinChain
from .thin_chain.head import ThinHead


class Tiled(Apart):
    """The tiled rung's ops."""

    table = tiled.TABLE


TABLE = replace(gemm.TABLE, heads=(ThinHead,), whole=(ThinChain,), rivals=(Tiled,))
