"""Two-dimensional cross-correlation with a bias.

reference.py is the truth; array.py, loops.py, cuda.py, tiled.py, gemm.py and library.py are implementations, tensor/
has algorithms on tensor cores, few_inputs/ algorithms for images with few channels. It imports ops/engine and ops/cost.
Begin with reference.py, then naive.cu.
"""
