"""Many samples through a narrow first linear layer, small ones after it and a loss, in one pass over the samples: a
block multiplies a tile of them on tensor cores forward and, while it is in shared memory, for the weight gradient. It
imports ops/engine, ops/small_chain, ops/loss and ops/update too. Begin with chain.py, then tile.cuh.
"""
