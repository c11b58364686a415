"""Rows of the data set, by index, scaled into a batch. It imports ops/engine and data/order.py. Begin with
reference.py, then naive.cu.
"""
