"""Tables of the implementation of each operation on a rung, one file for each table, named after its rung. They import
the operations' folders and the engine; trainers and rungs import them. Begin with naive.py.
"""
