"""Files on the user's disk: atomic writing (atomic.py), the disk cache (cache.py), Python files of a user (python.py),
arrays (npy.py).

It imports errors alone, and every part may import it. Begin with atomic.py.
"""
