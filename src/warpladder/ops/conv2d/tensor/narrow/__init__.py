"""Convolutions of few channels and outputs: a block holds all channels of some rows of an image, and all weights. It
imports ops/conv2d. Begin with narrow.py and narrow.cu.
"""
