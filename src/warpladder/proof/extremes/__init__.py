"""Reference steps at extremes: samples that are nearly learnt or far from it, logits up to 10^4, all below zero or all
above it, errors near zero and huge, activations over their whole range, large and small pixels, weights and numbers
inside of a net, and some units that are always 0. They begin from trained weights.

It may import proof/ but for cases.py and the checks. Begin with drawer.py, which draws the cases; states are changed by
sharp.py, magnitudes.py and steep.py.
"""

from .drawer import make_extremes as make_extremes
