"""Softmax and the negative log-likelihood of labels. It imports ops/engine. Begin with reference.py, then naive.cu."""
