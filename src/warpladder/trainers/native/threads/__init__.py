"""The native rung's threads: the compiled loop (run.py), the barrier, and the number of threads that run.

It imports compiler/ and program/. Begin with run.py.
"""
