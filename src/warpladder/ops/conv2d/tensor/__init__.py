"""Convolutions on tensor cores: seven algorithms, a folder for each, kernel next to launcher.

dispatch.py asks each in turn whether it supports a problem (algorithm.py); segment.py is the layer. Begin with
dispatch.py.
It imports ops/engine, ops/cost and device. Begin with dispatch.py.
"""
