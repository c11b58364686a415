"""The native rung's kernels: matrix products, convolutions, losses and updates in vector instructions.

They import compiler/ and the layout of program/. Begin with operations.py, the list of operations.
"""
