"""Batch normalisation: each channel minus its mean over the batch, divided by its deviation, then an affine map.

It imports ops/engine. Begin with reference.py, then naive.cu; the rungs graph and tensor have fused.cu and pooled.cu,
with what follows the layer.
"""
