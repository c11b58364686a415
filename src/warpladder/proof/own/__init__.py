"""A user's kernels by themselves, before they train: accesses and results, on a net's shapes and on ragged ones.

May import what proof may import. Begin with `kernels.py`; `update.py` has the optimizer's step, `watched.py` a launch
that may not end.
"""
