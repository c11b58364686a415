"""Program of a net: its tensors, their addresses in memory, and the rows of instructions of the compiled loop.

This folder imports nets, config and the sizes of kernels/. Begin with plan.py, then operands.py, the instruction set.
"""
