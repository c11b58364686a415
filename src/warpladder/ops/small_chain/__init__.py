"""Small linear layers and a loss by blocks that have a few samples each: forward, loss and backward in a launch, all
weight gradients and the optimizer's step in another. Activations, dropout and losses are those of ops/activation,
ops/dropout and ops/loss. It imports ops/engine, ops/linear and ops/update too. Begin with chain.py, then layers.cuh.
"""
