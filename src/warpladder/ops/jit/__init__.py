"""Compiled CPU code: numba's functions with a cache on disk (cache.py), the seconds spent compiling, the processor
compiled for.

It imports errors alone. Begin with cache.py.
"""
