"""Convolutions of any shape, also upsampled: implicit GEMMs whose shapes are compiled in, by mma.sync (implicit.cu),
and of many channels by warpgroup products (implicit_wide.cu). They import ops/conv2d and ops/cost. Begin with
implicit.py.
"""
