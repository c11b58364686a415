"""Facts of the machine (facts.py): cores, memory, measured speed (speed.py), peaks of GPUs, the five precisions.

It imports only errors, and every part may import it. Begin with precision.py.
"""
