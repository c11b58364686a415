"""Sums over the rows or the columns of a matrix, the last step of gradients of weights and biases. It imports
ops/engine. Begin with naive.cu.
"""
