"""Convolutions on tensor cores: seven algorithms, a folder for each, kernel beside launcher.

dispatch.py asks each in turn whether it supports a problem (algorithm.py); segment.py is the layer. Begin with
dispatch.py.
"""
