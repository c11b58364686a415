"""Convolutions of any window, stride, padding and channels, also upsampled: implicit GEMMs by mma.sync whose shapes are
compiled in. It imports ops/conv2d and ops/cost. Begin with implicit.py and implicit.cu.
"""
