"""Dropout: y = x m in training, y = x in predictions; m is 0 or 1 / (1 - p), and dx = dy m.

A number's mask is a hash of the layer's key in the epoch (`data/order.py`), the sample's position in the epoch's order
and the number's index in the sample, so that nothing is stored: the backward pass computes it again. It imports
ops/engine. Begin with reference.py.
"""
