"""Compilation by numba: its cache on disk (cache.py), its time, and the processor for which it compiles. It imports
errors and files alone. Begin with cache.py.
"""
