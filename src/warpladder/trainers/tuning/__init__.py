"""Tuner: it times the candidates for each product and segment on the present device, and stores its choice.

It imports ops, device and checkpoint/plan.py, the choice as data. Begin with tuner.py.
"""
