"""Peers: PyTorch, JAX and scikit-learn as rungs, with equal data, order and initial weights where possible.

They import rungs/base.py and the trainers' contract; ladder.py lists them. Begin with torch/.
"""
