"""Tables: which implementation of each operation a rung uses, one file for each table, named after its rung. They
import the operations' folders and the engine; trainers and rungs import them. Begin with naive.py.
"""
