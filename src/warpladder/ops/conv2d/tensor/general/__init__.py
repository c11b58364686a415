"""General convolution on tensor cores: any channels, window and stride, as an implicit matrix product by mma. It
imports the products of ops/conv2d and device. Begin with general.py and product.cu.
"""
