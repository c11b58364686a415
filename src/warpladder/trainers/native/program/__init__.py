"""A net as a program: its tensors, where they lie in memory, and the rows of instructions that the compiled loop runs.

It imports nets and config, and the names of kernels/. Begin with plan.py.
"""
