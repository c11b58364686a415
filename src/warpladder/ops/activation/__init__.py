"""Activations but ReLU: Tanh, Sigmoid, LeakyReLU, GELU, SiLU, each a value and a derivative, once for each language.

The derivative of Tanh and Sigmoid is computed from the output, which has the function's value already; those of the
others from the input (`Layer.reads_output`). A ReLU after one of them may overwrite its output: where that changes a
number, the gradient is 0. GELU's approximation and SiLU are x s(v) with the sigmoid s, and 1 - s(v) is computed as
s(-v), so that neither tail cancels. ReLU is in ops/relu: its mask rides along in the products' kernels. It
imports ops/engine. Begin with reference.py, then activation.cuh.
"""
