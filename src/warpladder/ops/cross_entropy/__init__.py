"""Softmax and the negative log-likelihood of the labels, in one. It imports ops/engine. Begin with reference.py, then
naive.cu.
"""
