"""numba's compiled functions: their cache on disk (cache.py), the seconds of compilation, the processor compiled for.
It imports errors and files alone. Begin with cache.py.
"""
