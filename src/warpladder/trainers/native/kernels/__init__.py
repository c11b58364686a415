"""Native rung's kernels: each file holds operations of one kind and their loops in vector instructions.

They import compiler/ and program/. Begin with matmul_tile.py and convolution.py; program/operands.py lists operations.
"""
