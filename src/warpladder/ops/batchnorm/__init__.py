"""Batch normalisation: each channel's numbers of a batch, less their mean and over their deviation, then an affine map.

It imports ops/engine. Begin with reference.py.
"""
