"""Small linear layers and cross-entropy by blocks that have a few samples each: forward, loss and backward in a launch,
all weight gradients in another. It imports ops/engine, ops/linear and ops/update. Begin with chain.py, then layers.cuh.
"""
