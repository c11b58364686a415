"""Residual connections: `Branch` stores its input, `Shortcut` continues from it, `Sum` adds the stored array.

Each copies or adds numbers; `Net.skips` states which arrays. It imports ops/engine. Begin with reference.py.
"""
