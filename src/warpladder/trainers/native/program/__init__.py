"""A net as a program: its tensors, their places in memory, and the rows of instructions that the compiled loop runs.

It imports nets, config and the sizes of kernels/. Begin with plan.py, then operands.py, the instruction set.
"""
