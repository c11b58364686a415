"""The native rung's threads: the compiled loop (run.py), workers, barriers and pages of memory.

It imports compiler/. Begin with workers.py, then run.py.
"""
