"""Convolutions on tensor cores: eight algorithms, kernel next to launcher.

dispatch.py chooses the first algorithm that supports a problem (algorithm.py); segment.py is the layer. This folder
imports ops/engine, ops/cost and device. Begin with dispatch.py.
"""
