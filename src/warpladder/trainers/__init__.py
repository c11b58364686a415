"""Trainers of the rungs: base.py is the contract, layerwise.py calls arrays, kernelwise/ sends launches one by one,
graphed.py records them, persistent/ trains epochs in one launch, native/ compiles a step; tuning/ times candidates.

They import ops and device; rungs build them. Begin with base.py, then layerwise.py.
"""
