"""Dropout: y = x m in training, y = x in predictions; m is 0 or 1 / (1 - p), and dx = dy m.

The mask of each number is a hash of the layer's key in the epoch (`data/order.py`), the sample's position in the
epoch's order and the number's index in the sample. No mask is stored: the backward pass computes it again. This folder
imports ops/engine. Begin with reference.py.
"""
