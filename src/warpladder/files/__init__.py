"""Files on the user's disk: atomic writing (atomic.py), the disk cache (cache.py), a user's Python files (python.py),
arrays (npy.py), whole files (whole.py).

It imports only errors, and every part may import it. Begin with atomic.py.
"""
