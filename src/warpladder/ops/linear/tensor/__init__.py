"""Linear layers on tensor cores: products of packed matrices by mma (product.cu) and by Hopper's wgmma (warpgroups.cu).
It imports ops/engine, ops/cost and device. Begin with segment.py; head.py is the last layer with its loss.
"""
