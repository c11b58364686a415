"""Activations other than ReLU: Tanh, Sigmoid, LeakyReLU, GELU, SiLU. Each language has a value and a derivative.

The derivative of Tanh and Sigmoid is computed from the output, which holds the function's value; the derivative of the
others from the input (`Layer.reads_output`). A ReLU after one of them may overwrite its output: it changes only numbers
whose gradient is 0. GELU's approximation and SiLU are x s(v) with the sigmoid s, and 1 - s(v) is computed as
s(-v), so that neither tail cancels. ReLU is in ops/relu: its mask is part of the products' kernels. This folder
imports ops/engine. Begin with reference.py, then activation.cuh.
"""
