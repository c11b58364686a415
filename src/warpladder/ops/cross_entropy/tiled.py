"""Softmax cross-entropy in one launch, a warp for each sample."""

from pathlib import Path

from ..engine.kernels import ceil_div
from .cuda import FusedCrossEntropy

#: Most blocks; beyond them warps take several samples each.
BLOCKS = 1024


class TiledCrossEntropy(FusedCrossEntropy):
    """Cross-entropy in one launch, a warp for each sample, block_size / 32 samples a block."""

    source, name = Path(__file__).with_name("tiled.cu"), "cross_entropy_by_warps"

    def blocks(self, n: int) -> int:
        return min(BLOCKS, ceil_div(n, self.block_size // 32))
