"""Trainer of the CUDA rungs: a step as a list of launches.

It imports device/, ops/engine/ and trainers/base.py. Begin with trainer.py; chain.py binds the segments, boundaries.py
has the arrays between them, and feeds.py copies the samples to the device.
"""
