"""Operations: a folder for each (linear/, conv2d/, ...), with a float64 reference.py next to array, loop and CUDA
implementations.

tables/ lists the implementation that each rung uses, engine/ has the base classes, cost/ the models of launch times,
jit/ numba's cache. Ops may import device, nets, config and optimizers. Begin with linear/reference.py and
linear/naive.cu, then tables/naive.py.
"""
