"""Convolutions of few pixels, of one image or a few: one launch each for y, dx and dw, by clusters of blocks. It
imports ops/conv2d and narrow/. Begin with few_pixels.py and few_pixels.cu.
"""
