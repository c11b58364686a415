"""Files on the user's disk: written whole or not at all (atomic.py), and Python files that a user names (python.py).

It imports errors alone, and every part may import it. Begin with atomic.py.
"""
