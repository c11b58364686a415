"""Linear layer, y = W x + b.

reference.py is the truth; array.py, loops.py, cuda.py, tiled.py, gemm.py, short.py, thin.py and library.py are
implementations, tensor/ has implementations on tensor cores. It imports ops/engine and ops/cost. Begin with
reference.py, then naive.cu.
"""
