"""Tuner: times the candidates for each product and segment on the device at hand, and stores its choice.

It imports ops, device and checkpoint/plan.py, the choice as data. Begin with tuner.py.
"""
