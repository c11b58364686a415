"""The native rung's trainer: a net becomes a program (program/plan.py) that one compiled loop (threads/run.py) runs on
kernels written in vector instructions. It imports nets, config, optimizers and ops/jit. Begin with trainer.py.
"""
