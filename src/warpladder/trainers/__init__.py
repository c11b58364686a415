"""Trainers of the rungs: `base.py` is the contract, native/ and kernelwise/ are the fast ones.

They import ops and device; rungs build them. Begin with base.py, then layerwise.py.
"""
