"""The tuner: times the candidates for each product and segment on the device at hand, and keeps what it chose.

It imports ops, device and checkpoint/plan.py, the choice as data. Begin with tuner.py.
"""
