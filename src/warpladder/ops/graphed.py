"""What the graph rung replays: the gemm rung's kernels, the last thin layer and the loss in one, and whole steps of thin nets."""

from __future__ import annotations

from dataclasses import replace

from . import gemm
from .thin_chain.chain import ThinChain
from .thin_chain.head import ThinHead

TABLE = replace(gemm.TABLE, heads=(ThinHead,), whole=(ThinChain,))
