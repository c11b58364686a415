"""Native rung's trainer: one compiled loop (threads/run.py) runs a net's program (program/plan.py) of vector kernels.

It imports nets, config, optimizers and ops/jit. Begin with trainer.py.
"""
