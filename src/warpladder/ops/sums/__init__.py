"""Sums over the rows or the columns of a matrix, which gradients of weights and biases end with.

It imports ops/engine. Begin with naive.cu.
"""
