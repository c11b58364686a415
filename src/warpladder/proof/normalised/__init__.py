"""Nets that normalise by the statistics of a batch, whose samples depend on each other.

It may import proof/ but for cases.py, case_maker.py and the checks. Begin with whole_batches.py: a batch away from
kinks, and its step; long_sums.py has sums of many numbers, format_errors.py what becomes of rounding errors.
"""
