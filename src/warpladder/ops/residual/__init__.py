"""Residual connections: `Branch` stores its input, `Shortcut` takes it up again, `Sum` adds what is stored.

Each copies or adds numbers; `Net.skips` states which arrays. It imports ops/engine. Begin with reference.py.
"""
