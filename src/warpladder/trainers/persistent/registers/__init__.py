"""Weights in the registers of one cluster for a whole launch.

by_inputs.py and inputs.cuh divide the inputs of one layer, by_units.py and units.cuh the hidden units of two. It
imports the folder above it, but neither plan.py nor source.py. Begin with choice.py.
"""
