"""What the graph rung replays: the gemm rung's kernels, and whole steps where a net is so thin that one kernel can do nearly all of it."""

from __future__ import annotations

from dataclasses import replace

from . import gemm
from .thin_chain.chain import ThinChain

TABLE = replace(gemm.TABLE, whole=(ThinChain,))
