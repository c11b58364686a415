"""First convolutions of a small net by blocks that have a sample each: all of them forward in a launch, all of them
backward in another, and the sum of the blocks' weight gradients with the optimizer's step in a third. Activations are
those of ops/activation. It imports ops/engine and ops/update too. Begin with chain.py, then convolutions.cuh.
"""
