"""The native rung's trainer: a net becomes a program (plan.py) that one compiled loop runs (run.py) on kernels written
in vector instructions.
"""
