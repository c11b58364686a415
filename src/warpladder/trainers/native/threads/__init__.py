"""Threads of the native rung: the compiled loop (run.py), the barrier, and the number of running threads.

This folder imports compiler/ and program/. Begin with run.py.
"""
