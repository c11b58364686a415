"""Peers: PyTorch, JAX and scikit-learn as rungs, with the same data, order and initial weights where they can follow.

They import rungs/base.py and the trainers' contract; ladder.py lists them. Begin with torch/.
"""
