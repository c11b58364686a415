"""The gradients of a batch that comes in slices, added up.

It imports ops/engine. Begin with naive.cu.
"""
