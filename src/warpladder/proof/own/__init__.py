"""Checks of a user's kernels before they train: accesses and results, on a net's shapes and on ragged ones.

This folder may import what proof may import. Begin with `kernels.py`; `update.py` has the optimizer's step,
`watched.py` a launch that may not end, `finite_differences.py` the reference of a user's layer.
"""
