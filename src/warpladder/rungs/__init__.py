"""The rungs of the ladder, a file each: name, idea, what it cannot train, and how its trainer is built.

They import trainers and ops/tables; ladder.py lists them in order. Begin with naive.py.
"""
