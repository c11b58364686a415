"""Counts of kernels without a GPU: sectors, bank conflicts, divergence, atomics, occupancy, FLOPs; by line of source.

May import what checker may import. Begin with `measure.py`, which runs a description's launches and sums the
emulator's counts; `flops.py` counts arithmetic in the compiled code, `names.py` has Nsight Compute's names, `page.py`
draws the source with a bar next to each line.
"""
