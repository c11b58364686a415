"""Rows of the data set, by index, as a batch. It imports ops/engine and data/order.py. Begin with naive.cu."""
