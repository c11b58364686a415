"""First convolution of a net: few input channels, many outputs, with the ReLU and the 2 x 2 pool after it. It imports
the products of ops/conv2d and device. Begin with first.py and first.cu.
"""
