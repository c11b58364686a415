"""Gathering of a batch: rows of the data set by index. It imports ops/engine, data/order.py. Begin with naive.cu."""
