"""First Linear layer on samples of which most numbers are 0: lists of the others (lists.py), and their products.

They import compiler/, program/, threads/ and the kernels next to this folder. Begin with products.py.
"""
