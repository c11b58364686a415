"""The machine: facts (facts.py), cores, memory, measured speed (speed.py), peaks of GPUs, the five precisions.

It imports errors alone, and every part may import it. Begin with precision.py.
"""
