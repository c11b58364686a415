"""The machine: measured peaks of this processor (facts.py), the peaks of GPUs (peaks.py), the five precisions
(precision.py).

It imports errors alone, and every part may import it. Begin with precision.py.
"""
