"""What the graph rung replays: the gemm rung's kernels, a first layer with its samples, a last one with its loss, and whole steps of thin nets."""

from __future__ import annotations

from dataclasses import replace

from . import gemm
from .linear.stem import ShortStem
from .thin_chain.chain import ThinChain
from .thin_chain.head import ThinHead

TABLE = replace(gemm.TABLE, stems=(ShortStem,), heads=(ThinHead,), whole=(ThinChain,))
