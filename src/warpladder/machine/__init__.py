"""The machine: facts about it (facts.py), its cores and memory, its measured speed (speed.py), the peaks of GPUs
(peaks.py), the five precisions (precision.py).

It imports errors alone, and every part may import it. Begin with precision.py.
"""
